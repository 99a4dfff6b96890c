// SPDX-License-Identifier: Apache-2.0
//
// The engine over time: a typical run with a row per stream under a row that names the blocks of the model, single runs below
// each other, or all queries as they came. Reformats, copies and casts are overhead: they have a colour and a hatching of their
// own in every mode, and a strip under each stream where none is ever too short to be seen. What would be narrower than a
// pixel is drawn together with its neighbours.
import { exactSum } from "../data/aggregate";
import { blockLabel, blockOf } from "../data/blocks";
import { isOverhead, layerColour, legend, share, typicalMs } from "../data/engine_model";
import * as numbers from "../data/numbers";
import { colour } from "../data/palette";
import type { Layer, TensorUse } from "../data/schema";
import { modesOf, tracksOf, type Span, type TimelineMode, type Track } from "../data/tracks";
import { breakable, choice, h, s, section, simpleTable, swatch } from "../ui/dom";
import { PanZoom } from "../ui/pan_zoom";
import { pngButton } from "../ui/picture";
import type { State, Store } from "../ui/store";
import { fitText, textWidth } from "../ui/text_width";
import { kColourModes } from "./graph";
import type { View } from "./view";

const kStrip = 9;   // a stream's overhead
const kOverheadRows = 30;
const kBlocks = 22; // the row of blocks
const kTop = 30 + kBlocks;
const kLeft = 78;
const kSlow = 1.15; // a query that took so much longer than the typical one stands out

const kNotes: Record<TimelineMode, string> = {
  typical: "Average times of the layer profile, one layer after another on each stream. Wheel zooms, dragging moves.",
  runs: "Single runs of the layer profile from a common start, each layer with the time that it took in that run: a layer that is sometimes slow stands out from the rows around it.",
  queries: "Every query of the measurement as it came, without times per layer; what overlaps ran on different streams. Orange: more than 15 % slower than the typical one.",
};

export function makeTimeline(store: Store): View {
  const { model } = store;
  const modes = modesOf(model);
  let mode: TimelineMode = "typical";
  let tracks: Track[] = [];
  let end = 0;
  const typical = typicalMs(model.engine) ?? 0;

  const scene = s("g");
  const hatch = s("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 2, height: 6, class: "hatch" }));
  const svg = s("svg", { class: "timeline-canvas", tabindex: 0, role: "group", "aria-label": "Timeline" }, s("defs", {}, hatch), scene);
  const zoom = new PanZoom(svg, { least: 1, most: 40000, changed: () => draw() });
  const key = h("div", { class: "legend" });
  const note = h("p", { class: "dim" });
  const range = h("span", { class: "counter", role: "status" });
  let bands: { name: string; start: number; end: number }[] = [];

  const hasStrip = () => mode === "typical";
  const lane = () => (mode === "typical" ? 56 : mode === "runs" ? 26 : 40);
  const pitch = () => lane() + (hasStrip() ? kStrip + 12 : 4);
  const width = () => Math.max(100, svg.clientWidth - kLeft - 8);
  // Milliseconds to pixels; panning is kept inside the run.
  const scale = () => {
    const { k, x } = zoom.transform;
    const most = width() * (k - 1);
    return { k: (width() / (end || 1)) * k, x: kLeft + Math.min(0, Math.max(-most, x)) };
  };

  function take(wanted: TimelineMode): void {
    mode = wanted;
    tracks = tracksOf(model, mode);
    end = tracks.reduce((most, track) => track.spans.reduce((a, span) => Math.max(a, span.end), most), 0);
    bands = mode === "typical" ? blockBands() : [];
    note.textContent = end === 0 ? "There is no layer profile, so there is no timeline." : kNotes[mode];
    zoom.transform = { k: 1, x: 0, y: 0 };
    if (svg.clientWidth > 0) draw();
  }

  // Runs of layers of one block on the first stream.
  function blockBands(): typeof bands {
    const result: typeof bands = [];
    for (const span of tracks[0]?.spans ?? []) {
      const name = blockOf(model.layers[span.layer]!);
      const last = result[result.length - 1];
      if (last && last.name === name) last.end = span.end;
      else result.push({ name, start: span.start, end: span.end });
    }
    return result.filter((band) => band.name !== "");
  }

  function drawBands(): SVGElement[] {
    const { k, x } = scale();
    const right = kLeft + width();
    return bands.filter((band) => x + band.end * k > kLeft && x + band.start * k < right).map((band) => {
      const [from, to] = [Math.max(kLeft, x + band.start * k), Math.min(right, x + band.end * k)];
      const text = blockLabel(band.name, (name) => textWidth(name) <= to - from - 4);
      return s("g", { class: "band", "data-tip": `${band.name}\n${numbers.milliseconds(band.end - band.start)} ms` },
        s("rect", { x: from.toFixed(1), y: 24, width: Math.max(0.5, to - from - 1).toFixed(1), height: kBlocks - 4 }),
        text !== "" && s("text", { x: ((from + to) / 2).toFixed(1), y: 37, class: "centred" }, text));
    });
  }

  function drawStrip(spans: readonly Span[], y: number): SVGElement[] {
    const { k, x } = scale();
    const right = kLeft + width();
    return spans.filter((span) => isOverhead(model.layers[span.layer]!) && span.end > span.start && x + span.end * k >= kLeft && x + span.start * k <= right).map((span) => {
      const from = Math.max(kLeft, x + span.start * k);
      return s("rect", { x: from.toFixed(1), y, width: Math.max(2, Math.min(right, x + span.end * k) - from).toFixed(1), height: kStrip, class: "k-vermillion overhead-mark",
        "data-layer": span.layer, "data-layer-tip": span.layer });
    });
  }

  function drawLane(spans: readonly Span[], y: number): SVGElement[] {
    const { k, x } = scale();
    const right = kLeft + width();
    const elements: SVGElement[] = [];
    let first = 0;
    let last = spans.length;
    // The first span that ends in sight, by bisection; the last one ends the loop.
    while (first < last) {
      const middle = (first + last) >> 1;
      if (x + spans[middle]!.end * k < kLeft) first = middle + 1;
      else last = middle;
    }
    for (let i = first; i < spans.length; i += 1) {
      const span = spans[i]!;
      const from = Math.max(kLeft, x + span.start * k);
      if (from > right) break;
      const to = Math.min(right, x + span.end * k);
      if (to - from >= 1.5) {
        elements.push(drawSpan(span, from, to, y));
        continue;
      }
      // Narrow ones up to two pixels on: one bar in the colour of the longest.
      let until = i;
      let longest = i;
      while (until + 1 < spans.length && x + spans[until + 1]!.end * k < from + 2) {
        until += 1;
        if (spans[until]!.end - spans[until]!.start > spans[longest]!.end - spans[longest]!.start) longest = until;
      }
      elements.push(until === i ? drawSpan(span, from, Math.max(to, from + 1), y) : drawMany(spans[longest]!, until - i + 1, from, y));
      i = until;
    }
    return elements;
  }

  function drawMany(longest: Span, count: number, from: number, y: number): SVGElement {
    const element = drawSpan(longest, from, from + 2, y);
    element.removeAttribute("data-layer-tip");
    const what = longest.layer < 0 ? `${count} queries narrower than a pixel; the longest: ${numbers.milliseconds(longest.end - longest.start)} ms`
      : `${count} layers narrower than a pixel; the longest: ${model.layers[longest.layer]!.name}`;
    element.setAttribute("data-tip", what);
    return element;
  }

  function drawSpan(span: Span, from: number, to: number, y: number): SVGElement {
    return span.layer < 0 ? drawQuery(span, from, to, y) : drawLayer(span, from, to, y);
  }

  function drawQuery(span: Span, from: number, to: number, y: number): SVGElement {
    const ms = span.end - span.start;
    const tint = typical > 0 && ms > kSlow * typical ? "orange" : "blue";
    const text = `${numbers.milliseconds(ms)} ms`;
    return s("g", { class: "span query", "data-tip": `query ${span.run}: ${text}` },
      s("rect", { x: from.toFixed(1), y, width: Math.max(0.5, to - from - 0.5).toFixed(1), height: lane(), class: `k-${tint}` }),
      textWidth(text) < to - from - 6 && s("text", { x: (from + 4).toFixed(1), y: y + lane() / 2 + 4, class: `k-${tint}` }, text));
  }

  function drawLayer(span: Span, from: number, to: number, y: number): SVGElement {
    const index = span.layer;
    const layer = model.layers[index]!;
    const overhead = isOverhead(layer);
    const tint = overhead ? colour("vermillion") : layerColour(model, index, store.state.colours);
    const chosen = store.state.selected.has(index);
    const ms = span.run < 0 ? model.timeMs[index]! : span.end - span.start;
    const group = s("g", { class: `span${chosen ? " selected" : ""}${overhead ? " overhead" : ""}`, "data-layer": index,
      ...(span.run < 0 ? { "data-layer-tip": index } : { "data-tip": `${layer.name}\n${numbers.milliseconds(ms)} ms in this run, ${numbers.milliseconds(model.timeMs[index])} ms on average` }) });
    const box = { x: from.toFixed(1), y, width: (to - from).toFixed(1), height: lane() };
    group.append(s("rect", { ...box, class: `k-${tint.key}` }));
    if (overhead) group.append(s("rect", { ...box, class: "hatched" }));
    const room = to - from - 8;
    if (room > 30 && !overhead) {
      const line = (value: string, dy: number) => s("text", { x: (from + 4).toFixed(1), y: y + dy, class: `k-${tint.key}` }, fitText(value, room, { least: 8 }));
      group.append(line(model.shortNames[index]!, 17));
      if (mode === "typical") group.append(line(`${numbers.milliseconds(ms)} ms`, 33), line(layer.type, 49));
    }
    return group;
  }

  function draw(): void {
    if (svg.clientWidth === 0) return;
    const { k, x } = scale();
    const right = kLeft + width();
    const top = bands.length > 0 ? kTop : 30;
    const height = top + tracks.length * pitch();
    svg.style.height = `${height}px`;
    svg.setAttribute("viewBox", `0 0 ${svg.clientWidth} ${height}`);  // one to one on screen, smaller on paper
    const [from, to] = [(kLeft - x) / k, (right - x) / k];
    const steps = numbers.ticks(from, Math.min(to, end), Math.max(2, Math.floor(width() / 110)));
    scene.replaceChildren(
      s("g", { class: "axis" }, steps.map((step) => s("g", {}, s("line", { x1: x + step * k, x2: x + step * k, y1: 18, y2: height }),
        s("text", { x: x + step * k, y: 14, class: x + step * k > right - 40 ? "end" : "" }, `${Number(step.toPrecision(6))} ms`)))),
      ...(bands.length > 0 ? [s("text", { x: 4, y: 37, class: "lane-name" }, "Blocks"), ...drawBands()] : []),
      ...tracks.flatMap((track, i) => {
        const y = top + i * pitch();
        return [s("text", { x: 4, y: y + lane() / 2 + 4, class: "lane-name", "data-tip": track.tip }, track.name),
          ...drawLane(track.spans, y),
          ...(hasStrip() ? [s("text", { x: 4, y: y + lane() + kStrip + 3, class: "lane-name" }, "Overhead"), ...drawStrip(track.spans, y + lane() + 4)] : [])];
      }));
    range.textContent = `${numbers.milliseconds(from)} … ${numbers.milliseconds(Math.min(to, end))} of ${numbers.milliseconds(end)} ms`;
    key.replaceChildren(...(mode === "queries" ? [swatch(colour("blue"), "query"), swatch(colour("orange"), "slower than the typical one")] :
      [...legend(model, store.state.colours).filter((entry) => entry.colour.key !== "vermillion").map((entry) => swatch(entry.colour, entry.label)),
        ...(model.layers.some(isOverhead) ? [swatch(colour("vermillion"), "reformat, copy, cast (hatched)")] : [])]));
  }

  function reveal(layer: number): void {
    const time = model.layers[layer]!.time;
    if (!time || mode !== "typical") return draw();
    const { k, x } = scale();
    const [from, to] = [x + time.start_ms * k, x + (time.start_ms + time.average_ms) * k];
    if (from >= kLeft && to <= kLeft + width() && to - from >= 3) draw();
    else showRange(time.start_ms - time.average_ms * 8, time.start_ms + time.average_ms * 9);
  }

  function showRange(from: number, to: number): void {
    const start = Math.max(0, from);
    const k = Math.max(1, end / Math.max(1e-9, Math.min(end, to) - start));
    zoom.set({ k, x: -start * (width() / end) * k, y: 0 });
  }

  svg.addEventListener("click", (event) => {
    if (zoom.dragged) return;
    const target = (event.target as Element).closest<SVGGElement>("[data-layer]");
    if (!target) return;
    const layer = Number(target.dataset.layer);
    if (!event.ctrlKey && !event.metaKey) {
      store.focus(layer);
      return;
    }
    const selected = new Set(store.state.selected);
    if (!selected.delete(layer)) selected.add(layer);
    store.update({ selected, focus: layer });
  });
  new ResizeObserver(draw).observe(svg);

  // Where time goes that computes nothing, largest first.
  function overheadTable(): HTMLElement {
    const rows = model.layers.map((_, i) => i).filter((i) => isOverhead(model.layers[i]!) && model.timeMs[i]! > 0).sort((a, b) => model.timeMs[b]! - model.timeMs[a]! || a - b);
    const total = exactSum(rows.map((row) => model.timeMs[row]!));
    const side = (use: TensorUse | undefined) => (use ? `${use.type} ${use.format}` : "");
    return section(`Overhead: ${rows.length === 1 ? "1 layer that reformats, copies or casts" : `${rows.length} layers that reformat, copy or cast`}, ${numbers.milliseconds(total)} ms, ${numbers.percent((100 * total) / (model.sumMs || NaN), 2)} %`,
      rows.length === 0 ? h("p", { class: "dim" }, "None that takes time.") : simpleTable(["layer", "kind", "from", "to", "size", "ms", "%"], rows.slice(0, kOverheadRows).map((row) => {
        const layer = model.layers[row]!;
        return [h("button", { type: "button", class: "link", "data-layer-tip": row, click: () => store.focus(row) }, breakable(model.shortNames[row]!)), originOf(layer), side(layer.inputs[0]), side(layer.outputs[0]),
          numbers.bytes(layer.outputs[0]?.bytes), numbers.milliseconds(model.timeMs[row]), numbers.percent(share(model, row), 2)];
      }), [4, 5, 6]), rows.length > kOverheadRows && h("p", { class: "dim" }, `and ${rows.length - kOverheadRows} more: filter the table by kind:overhead`));
  }

  // TensorRT says of its reformats where they come from (QDQ or REFORMAT).
  function originOf(layer: Layer): string {
    const origin = (layer.attributes as Record<string, unknown>)["Origin"];
    return typeof origin === "string" && origin.toLowerCase() !== layer.kind ? `${layer.kind} (${origin})` : layer.kind;
  }

  take("typical");
  const bar = h("div", { class: "toolbar" }, modes.length > 1 && choice("Show", modes, mode, take), choice("Colour", kColourModes, store.state.colours, (colours) => store.update({ colours })),
    h("button", { type: "button", "data-tip": "Zoom in (+)", click: () => zoom.zoom(1.6) }, "+"), h("button", { type: "button", "data-tip": "Zoom out (−)", click: () => zoom.zoom(1 / 1.6) }, "−"),
    h("button", { type: "button", "data-tip": "All of it (0)", click: () => zoom.set({ k: 1, x: 0, y: 0 }) }, "Fit"), pngButton(() => `${model.engine.name}.timeline`, () => svg), range);
  return {
    root: h("div", { class: "view timeline" }, bar, key, svg, note, overheadTable()),
    shown: () => { if (store.state.focus !== null && end > 0) reveal(store.state.focus); else draw(); },
    changed: (state: Readonly<State>, before: Readonly<State>) => {
      if (state.focus !== before.focus && state.focus !== null && end > 0) reveal(state.focus);
      else if (state.selected !== before.selected || state.colours !== before.colours) draw();
    },
    keys: (event) => {
      if (event.key !== "0") return false;
      zoom.set({ k: 1, x: 0, y: 0 });
      return true;
    },
  };
}
