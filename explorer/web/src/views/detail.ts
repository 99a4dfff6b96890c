// SPDX-License-Identifier: Apache-2.0
//
// Everything known of one layer, beside every view: time, roofline, tensors, the ONNX nodes inside with their operations
// and bytes, neighbours, findings, and every other field of the file.
import { layerColour, share, type EngineModel } from "../data/engine_model";
import * as numbers from "../data/numbers";
import { modelOf } from "../data/onnx_model";
import type { Layer, TensorUse, Tuning } from "../data/schema";
import { breakable, copyButton, facts, h, simpleTable, type Child } from "../ui/dom";
import type { Store } from "../ui/store";

const kNeighboursShown = 12;

function block(title: string, ...children: Child[]): HTMLElement {
  return h("section", {}, h("h3", {}, title), ...children);
}

function timing(model: EngineModel, index: number): HTMLElement {
  const { time, roofline, flops, flops_source, bytes_read, bytes_written, weights_bytes, intensity } = model.layers[index]!;
  const ms = (value: number | null | undefined) => (value === null || value === undefined ? "" : `${value} ms`);
  const noisy = time?.noise_percent !== undefined && time.noise_percent >= 10 ? " (noisy)" : "";
  return block("Time and roofline", facts([
    ["Average", time === null ? "not in the profile" : `${ms(time.average_ms)}  (${numbers.percent(share(model, index), 2)} % of the sum)`],
    ["Median", ms(time?.median_ms)], ["Least", ms(time?.min_ms)], ["p99", ms(time?.p99_ms)],
    ["Noise", time?.noise_percent === undefined ? "" : `${numbers.percent(time.noise_percent)} %${noisy}`],
    ["Bound by", roofline.verdict],
    ["Least by the roof", roofline.roof_ms === null ? "" : `${numbers.milliseconds(roofline.roof_ms)} ms (${roofline.precision || "memory"} peak)`],
    ["Of the roof", roofline.percent_of_roof === null ? "" : `${numbers.percent(roofline.percent_of_roof)} %`],
    ["Recoverable", roofline.recoverable_ms === null ? "" : `${numbers.milliseconds(roofline.recoverable_ms)} ms at 80 % of the roof`],
    ["Operations", flops === null ? "" : `${numbers.flops(flops)} (${flops_source})`, flops === null ? "" : `${flops}`],
    ["Rate", roofline.flops_per_s === null ? "" : numbers.flopsPerSecond(roofline.flops_per_s)],
    ["Reads / writes", bytes_read === null ? "" : `${numbers.bytes(bytes_read)} / ${numbers.bytes(bytes_written)}`],
    ["Of it weights", weights_bytes === 0 ? "" : numbers.bytes(weights_bytes)],
    ["Bandwidth", roofline.bytes_per_s === null ? "" : numbers.bytesPerSecond(roofline.bytes_per_s)],
    ["Intensity", intensity === null ? "" : `${numbers.plain(intensity)} flop/byte`],
  ]));
}

const kTacticsShown = 12;

// Everything that the builder tried for the layer, and what it could not use, with the reason.
function tuningTable(layer: Layer): HTMLElement | null {
  const { tuning } = layer;
  if (!tuning || tuning.timed.length + tuning.refused.length === 0) return null;
  const best = tuning.timed.reduce((least, tactic) => (tactic.ms !== null && tactic.ms < least ? tactic.ms : least), Infinity);
  const row = (tactic: Tuning["timed"][number]): Child[] => [
    h("span", { class: tactic.chosen ? "chosen" : null, title: `${tactic.runner}\n${tactic.types}` }, breakable(tactic.name)),
    numbers.milliseconds(tactic.ms), tactic.ms === null ? "" : tactic.chosen ? "chosen" : `${(tactic.ms / best).toFixed(2)}×`];
  const shown = tuning.timed.slice(0, kTacticsShown);
  const rest = tuning.timed.slice(kTacticsShown);
  return block(`Tactics that were timed (${tuning.timed.length})`,
    tuning.timed.length > 0 ? simpleTable(["tactic", "ms", ""], shown.map(row), [1, 2]) : h("p", { class: "dim" }, "None: the engine was built without timing."),
    rest.length > 0 && h("details", {}, h("summary", {}, `${rest.length} slower ones`), simpleTable([], rest.map(row), [1, 2])),
    tuning.refused.length > 0 && h("details", {}, h("summary", {}, `Refused (${tuning.refused.length})`),
      simpleTable(["tactic", "why"], tuning.refused.map((tactic) => [breakable(tactic.name), tactic.reason]))),
    tuning.left_out > 0 && h("p", { class: "dim" }, `The engine keeps no record of ${tuning.left_out} more.`));
}

// The folder that all names share, with its last '/': "/encoder/layer.0/intermediate/".
export function commonFolder(names: readonly string[]): string {
  let folder = names[0]?.slice(0, names[0].lastIndexOf("/") + 1) ?? "";
  while (folder !== "" && !names.every((name) => name.startsWith(folder))) folder = folder.slice(0, folder.lastIndexOf("/", folder.length - 2) + 1);
  return folder;
}

function originsTable(store: Store, layer: Layer): HTMLElement | null {
  if (layer.origins.length === 0) return null;
  const saved = layer.origins.reduce((sum, origin) => sum + (origin.saved_bytes ?? 0), 0);
  const folder = layer.origins.length > 1 ? commonFolder(layer.origins.map((origin) => origin.name)) : "";
  return block(`ONNX nodes inside (${layer.origins.length})`, folder !== "" ? h("p", { class: "dim" }, "in ", breakable(folder)) : null,
    simpleTable(["node", "operator", "flop", "bytes", "saved"], layer.origins.map((origin) => [
      nodeName(store, origin.name, origin.name.slice(folder.length), layer.index), origin.op_type, numbers.count(origin.flops), numbers.bytes(origin.bytes),
      origin.saved_bytes ? numbers.bytes(origin.saved_bytes) : ""]), [2, 3, 4]),
    saved > 0 ? h("p", { class: "dim" }, `Fusion keeps ${numbers.bytes(saved)} of intermediate results out of memory.`) : null);
}

// A link into the model where that is known.
function nodeName(store: Store, name: string, shown: string, layer: number): HTMLElement {
  const { onnx } = store.model.engine;
  if (!onnx) return h("span", { title: name }, breakable(shown));
  return h("button", { type: "button", class: "link", title: name, click: () => store.update({ view: "model", node: modelOf(store.model)!.nodesOf(layer).find((node) => onnx.nodes[node]!.name === name) ?? null }) }, breakable(shown));
}

function tensors(model: EngineModel, title: string, uses: readonly TensorUse[]): HTMLElement | null {
  if (uses.length === 0) return null;
  return block(title, h("ul", { class: "tensors" }, uses.map((use) => {
    const tensor = model.engine.tensors[use.tensor]!;
    return h("li", {}, breakable(tensor.name),
      h("span", { class: "dim" }, `${numbers.shape(use.shape)} ${use.type} · ${numbers.bytes(use.bytes)} · ${use.role === "weights" ? "weights" : use.format}`));
  })));
}

function value(item: unknown): string {
  return typeof item === "string" ? item : JSON.stringify(item);
}

export function makeDetail(store: Store, close: () => void): { root: HTMLElement; draw: () => void } {
  const root = h("aside", { class: "detail", "aria-label": "Layer details" });

  function links(title: string, indices: readonly number[]): HTMLElement | null {
    if (indices.length === 0) return null;
    const { model } = store;
    return block(title, h("div", { class: "chips" }, indices.slice(0, kNeighboursShown).map((index) =>
      h("button", { type: "button", class: "chip", "data-layer-tip": index, click: () => store.focus(index) }, model.shortNames[index]!)),
      indices.length > kNeighboursShown && `and ${indices.length - kNeighboursShown} more`));
  }

  function several(model: EngineModel): Child[] {
    const rows = [...store.state.selected].sort((a, b) => a - b);
    const total = rows.reduce((sum, row) => sum + (model.timeMs[row] || 0), 0);
    return [h("header", {}, h("h2", {}, `${rows.length} layers selected`), closeButton()),
      facts([["Total", `${numbers.milliseconds(total)} ms`], ["Share", `${numbers.percent((100 * total) / (model.sumMs || NaN), 2)} %`]]),
      h("div", { class: "chips" }, rows.slice(0, 200).map((row) =>
        h("button", { type: "button", class: "chip", "data-layer-tip": row, click: () => store.focus(row) }, model.shortNames[row]!)))];
  }

  function closeButton(): HTMLElement {
    return h("button", { type: "button", class: "close", title: "Close (Escape)", "aria-label": "Close details", click: close }, "×");
  }

  function one(model: EngineModel, index: number): Child[] {
    const layer = model.layers[index]!;
    const findings = model.findingsOf.get(index) ?? [];
    const attributes = Object.entries(layer.attributes);
    const go = (view: "layers" | "timeline" | "graph" | "roofline" | "memory", title: string) =>
      h("button", { type: "button", "aria-pressed": String(store.state.view === view), click: () => store.show(view, index) }, title);
    return [
      h("header", {}, h("h2", { class: "layer-name", title: layer.name }, breakable(layer.name)), copyButton(() => layer.name), closeButton()),
      h("p", {}, h("i", { class: `swatch k-${layerColour(model, index, "type").key}` }), `${layer.type} · ${layer.precision || "type unknown"} · layer ${index}`,
        layer.kind !== "compute" && h("span", { class: "badge" }, layer.kind)),
      layer.fallback ? h("p", { class: "warning" }, h("b", {}, "On the slow reference implementation: "), layer.fallback) : null,
      h("div", { class: "chips" }, go("layers", "Table"), go("timeline", "Timeline"), go("graph", "Graph"), go("roofline", "Roofline"), go("memory", "Memory")),
      timing(model, index),
      facts([["Tactic", breakable(layer.tactic)], ["Tactic id", layer.tactic_id], ["Runner", layer.runner], ["Stream", String(layer.stream)],
        ["Types", [layer.input_precision, layer.output_precision].filter((type) => type !== "").join(" → ")]]),
      layer.error && block("Accuracy", facts([["Own error", numbers.scientific(layer.error.local)], ["Error so far", numbers.scientific(layer.error.accumulated)],
        ["Limit", numbers.scientific(layer.error.limit)], ["", layer.error.text]])),
      tuningTable(layer), originsTable(store, layer),
      tensors(model, "Inputs", layer.inputs), tensors(model, "Outputs", layer.outputs),
      links("Runs after", model.previous[index]!), links("Feeds", model.next[index]!),
      findings.length > 0 && block("Findings", h("ul", {}, findings.map((finding) => h("li", {}, finding.title,
        finding.gain_ms === null ? "" : ` (≈ ${numbers.milliseconds(finding.gain_ms)} ms)`)))),
      attributes.length > 0 && h("details", {}, h("summary", {}, `Other fields of the file (${attributes.length})`),
        facts(attributes.map(([name, item]) => [name, breakable(value(item))]))),
    ];
  }

  function draw(): void {
    const { model, state } = store;
    const content = state.selected.size > 1 ? several(model) : state.focus !== null ? one(model, state.focus) : null;
    root.hidden = content === null;
    if (content === null) return;
    root.replaceChildren(...content.filter((child): child is Node => child instanceof Node));
    root.scrollTop = 0;
  }

  return { root, draw };
}
