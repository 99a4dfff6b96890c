// SPDX-License-Identifier: Apache-2.0
//
// The first page: what was measured, how far to trust it, where the time goes, what to do first.
import { precisionKey } from "../data/palette";
import * as numbers from "../data/numbers";
import { familyOf, groupFamily, isOverhead, share, typicalMs } from "../data/engine_model";
import type { Engine, Series } from "../data/schema";
import { breakable, facts, h, s, section, simpleTable, type Child } from "../ui/dom";
import type { Store } from "../ui/store";
import { barList, type Bar } from "./bars";
import { findingCard } from "./findings";
import type { View } from "./view";

const kSlowest = 10;
const kFindings = 3;

function tile(title: string, value: string, note: Child, tip = ""): HTMLElement {
  return h("div", { class: "tile", "data-tip": tip || null }, h("span", { class: "tile-title" }, title), h("strong", {}, value), h("span", { class: "tile-note" }, note));
}

function inMs(value: number | null): string {
  return value === null ? numbers.kUnknown : `${numbers.milliseconds(value)} ms`;
}

function tiles(store: Store): HTMLElement {
  const { model } = store;
  const { engine } = model;
  const { statistics: stats, memory } = engine;
  const latency = stats.compute ?? stats.latency;
  const typical = typicalMs(engine);
  const sum = stats.layer_median_sum_ms ?? stats.layer_sum_ms;
  const namesTensors = engine.tensors.length > 0;
  return h("div", { class: "tiles" },
    tile("Engine latency", inMs(typical), latency ? `median of ${latency.count} runs; mean ${numbers.milliseconds(latency.mean_ms)} ms` : "not measured",
      stats.engine_latency_source),
    tile("Throughput", stats.throughput_qps === null ? numbers.kUnknown : `${numbers.plain(stats.throughput_qps, 4)} /s`, stats.throughput_qps === null ? "not in the files" : "as the run printed it"),
    tile("Sum of layers", inMs(sum),
      sum === null ? "no layer profile" : `${stats.layer_median_sum_ms === null ? "means" : "medians"} ${stats.profile_iterations === null ? "of the layer profile" : `of ${stats.profile_iterations} runs`}`, "Times of all layers, each timed by itself, added up"),
    tile("Layers", String(stats.layer_count), overheadNote(engine), "Overhead: reformats, copies and casts"),
    tile("Operations", numbers.flops(stats.flops), typical && stats.flops
      ? `${numbers.flopsPerSecond((stats.flops / typical) * 1000)} reached` : "of one run", "A multiply-add counts as two"),
    tile("Weights", namesTensors ? numbers.bytes(stats.weights_bytes) : numbers.kUnknown, namesTensors ? "each once" : "not in the files"),
    tile("Peak activations", namesTensors ? numbers.bytes(memory.peak_bytes) : numbers.kUnknown, !namesTensors ? "not in the files" : memory.peak_layer === null ? "" : breakable(`at ${model.shortNames[memory.peak_layer]!}`), memory.note));
}

function overheadNote(engine: Engine): string {
  const overhead = engine.layers.filter(isOverhead).length;
  return overhead === 0 ? "no reformats or copies" : `overhead in ${overhead} of them: ${numbers.milliseconds(engine.statistics.overhead_ms)} ms`;
}

// Engine and layers as two bars to one scale, and in a sentence what lies between them.
function honestTiming(engine: Engine): HTMLElement {
  const stats = engine.statistics;
  const title = "Timing: engine against its layers";
  if (stats.layer_sum_ms === null) return section("Timing", h("p", {}, "There is no layer profile: times per layer are not known."));
  if (stats.engine_latency_ms === null || stats.gap_ms === null) {
    return section("Timing", h("p", {}, "Only the layer profile is known. Measured layer by layer an engine is usually slower than it runs alone; a times file (--exportTimes) would tell."));
  }
  const medians = stats.compute && stats.layer_median_sum_ms != null;
  const [whole, layers] = medians ? [stats.compute!.median_ms, stats.layer_median_sum_ms!] : [stats.engine_latency_ms, stats.layer_sum_ms];
  const what = medians ? "median" : "mean";
  const bars: Bar[] = [
    { label: `Engine, alone (${what})`, value: whole, text: `${numbers.milliseconds(whole)} ms`, key: "blue", tip: stats.engine_latency_source },
    { label: `Sum of its layers (${what}s)`, value: layers, text: `${numbers.milliseconds(layers)} ms`, key: "grey", tip: "Measured with a timer around every layer" },
  ];
  const text = stats.gap_text || stats.gap_parts.map((part) => part.text).join(" ");
  return section(title, barList(bars, "Engine latency and layer sum"), h("p", { class: "gap" }, text));
}

function seriesTable(engine: Engine): HTMLElement | null {
  const stats = engine.statistics;
  const rows: [string, Series | null][] = [["Latency", stats.latency], ["Compute", stats.compute], ["Host to device", stats.h2d],
    ["Device to host", stats.d2h], ["Enqueue", stats.enqueue]];
  const known = rows.filter((row): row is [string, Series] => row[1] !== null && row[1].max_ms > 0);
  if (known.length === 0) return null;
  const ms = numbers.milliseconds;
  const table = simpleTable(["", "runs", "min", "mean", "median", "p90", "p95", "p99", "max", "spread %"],
    known.map(([name, s]) => [name, s.count, ms(s.min_ms), ms(s.mean_ms), ms(s.median_ms), ms(s.p90_ms), ms(s.p95_ms), ms(s.p99_ms), ms(s.max_ms),
      numbers.percent(s.variation_percent)]), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
  table.classList.add("dense");
  return section("Measured times, ms", table);
}

export function groupBars(store: Store, groups: Engine["groups"]["by_type"], key: (group: Engine["groups"]["by_type"][number]) => string, what = "time"): Bar[] {
  return groups.map((group) => ({
    label: group.key || "unknown", key: key(group),
    value: what === "time" ? group.time_ms ?? 0 : group.count,
    text: what === "count" ? String(group.count) : group.time_ms === null ? `${group.count} layers` : `${numbers.milliseconds(group.time_ms)} ms  ${numbers.percent(group.percent)} %`,
    tip: `${group.key || "unknown"}\n${group.count} layers, ${numbers.milliseconds(group.time_ms)} ms, ${numbers.flops(group.flops)}, ${numbers.bytes(group.bytes)}`,
    click: () => store.update({ view: "layers", selected: new Set(group.layers), focus: null }),
  }));
}

export function typeKey(store: Store): (group: Engine["groups"]["by_type"][number]) => string {
  return (group) => groupFamily(store.model, group.layers);
}

function slowest(store: Store): HTMLElement | null {
  const { model } = store;
  const order = model.layers.map((_, i) => i).filter((i) => !Number.isNaN(model.timeMs[i]!))
    .sort((a, b) => model.timeMs[b]! - model.timeMs[a]! || a - b).slice(0, kSlowest);
  return order.length === 0 ? null : section(`Slowest ${order.length} layers`, barList(order.map((i) => {
    const layer = model.layers[i]!;
    return {
      label: model.shortNames[i]!, value: model.timeMs[i]!, key: familyOf(layer)[0],
      text: `${numbers.milliseconds(model.timeMs[i])} ms  ${numbers.percent(share(model, i))} %`, tip: `${layer.name}\n${layer.type} ${layer.precision}`,
      click: () => store.focus(i),
    };
  }), "Slowest layers"));
}

function notes(engine: Engine): HTMLElement | null {
  if (engine.notes.length === 0) return null;
  return section("Notes on the data", h("ul", { class: "notes" }, engine.notes.map((note) =>
    h("li", { class: `note-${note.severity}` }, h("b", {}, note.severity), " ", note.text))));
}

function bindings(engine: Engine): HTMLElement {
  return section("Inputs and outputs", simpleTable(["", "name", "shape", "type", "format", "size", "profiles (min … opt … max)"],
    engine.bindings.map((binding) => [binding.io, binding.name, binding.type === "" ? numbers.kUnknown : numbers.shape(binding.shape), binding.type, binding.format, numbers.bytes(binding.bytes),
      binding.profiles.map((p) => `${numbers.shape(p.min)} … ${numbers.shape(p.opt)} … ${numbers.shape(p.max)}`).join("; ")]), [5]));
}

// Readings over the run as a line without axes: their range stands beside it.
function sparkline(points: readonly (readonly [at: number, value: number])[], label: string): SVGElement {
  const [width, height] = [240, 24];
  const values = points.map(([, value]) => value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const [from, to] = [points[0]![0], points[points.length - 1]![0]];
  const x = (at: number) => (width * (at - from)) / (to - from || 1);
  const y = (value: number) => 2 + ((height - 4) * (most - value)) / (most - least || 1);
  return s("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label} over ${((to - from) / 1000).toFixed(1)} s` },
    s("path", { d: `M${points.map(([at, value]) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}` }));
}

function hardware(engine: Engine): HTMLElement {
  const state = engine.hardware_state;
  const range = (pick: (sample: (typeof state.samples)[number]) => number | null, unit: string): Child => {
    const points = state.samples.map((sample) => [sample.at_ms, pick(sample)] as const).filter((point): point is readonly [number, number] => point[1] !== null);
    if (points.length === 0) return "";
    const values = points.map(([, value]) => value);
    const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => numbers.tick(value)) as [string, string];
    if (least === most) return `${least} ${unit}`;
    const text = `${least} … ${most} ${unit}`;
    return points.length < 3 ? text : h("span", { class: "spark-row" }, text, sparkline(points, text));
  };
  const throttled = state.samples.filter((sample) => sample.throttled).length;
  return section("Device and its state", facts([["Device", engine.device.name], ["Kind", engine.device.kind]]), h("p", {}, state.text),
    facts([["Others' share", range((s) => (s.others_percent == null ? null : Math.round(s.others_percent)), "% of the processors")], ["Core clock", range((s) => s.core_mhz, "MHz")], ["Memory clock", range((s) => s.memory_mhz, "MHz")],
      ["Temperature", range((s) => s.temperature_c, "°C")], ["Power", range((s) => s.power_w, "W")],
      ["Throttled", state.samples.length === 0 ? "" : `${throttled} of ${state.samples.length} readings`]]));
}

function options(title: string, values: Record<string, string>): HTMLElement | null {
  const entries = Object.entries(values);
  return entries.length === 0 ? null : h("details", { class: "panel" }, h("summary", {}, `${title} (${entries.length})`), facts(entries));
}

function firstFindings(store: Store): HTMLElement | null {
  const { findings } = store.model.engine;
  return findings.length === 0 ? null : section("What to do first", findings.slice(0, kFindings).map((finding) => findingCard(store, finding)),
    findings.length > kFindings && h("button", { type: "button", class: "more", click: () => store.show("findings") }, `All ${findings.length} findings`));
}

export function makeSummary(store: Store): View {
  const { engine } = store.model;
  const timed = engine.statistics.layer_sum_ms !== null;
  const what = timed ? "time" : "count";
  const title = timed ? "Time" : "Layers";
  // Panels of different heights flow into two columns of one height.
  const root = h("div", { class: "view summary" },
    tiles(store),
    h("div", { class: "columns flow" },
      slowest(store),
      section(`${title} by type`, barList(groupBars(store, engine.groups.by_type, typeKey(store), what), "Time by type")),
      honestTiming(engine), seriesTable(engine),
      firstFindings(store),
      section(`${title} by precision`, barList(groupBars(store, engine.groups.by_precision, (group) => precisionKey(group.key), what), "Time by precision")),
      hardware(engine), notes(engine)),
    engine.onnx && section("Model", h("p", {}, engine.onnx.text, " ", h("button", { type: "button", class: "link", click: () => store.show("model") }, "Node by node"))),
    bindings(engine),
    options("Device properties", engine.device.properties), options("Model options", engine.model.options), options("Build options", engine.build_options),
    options("Inference options", engine.inference_options), options("Performance summary", engine.statistics.summary),
    h("details", { class: "panel" }, h("summary", {}, `Files read (${engine.sources.length})`),
      simpleTable(["role", "file", "dialect"], engine.sources.map((source) => [source.role.replace("_", " "), source.file, source.dialect]))));
  return { root };
}
