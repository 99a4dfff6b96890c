// SPDX-License-Identifier: Apache-2.0
//
// What each layer reaches against what the device could do: operations per second over operations per byte, under the
// roofs of memory and of each precision, and the layers by the time that could be won.
import { legend, type EngineModel } from "../data/engine_model";
import * as numbers from "../data/numbers";
import { precisionKey, verdictKey } from "../data/palette";
import { breakable, choice, h, s, section, simpleTable, swatch } from "../ui/dom";
import { pngButton } from "../ui/picture";
import type { State, Store } from "../ui/store";
import { kColourModes } from "./graph";
import { drawScatter, type Axes } from "./scatter";
import { barList } from "./bars";
import type { View } from "./view";

const kRows = 25;
const kSources: Record<string, string> = {
  given: "The peaks were given by the user.", measured: "The peaks were measured on the device.",
  estimated: "The peaks are the best rates seen in this profile: a lower bound, so layers look better than they are.",
  none: "No peaks are known, so there is no roof and no verdict.",
};

// Of some places the one that is farthest from all dots.
function quietest(model: EngineModel, axes: Axes, spots: readonly [number, number][]): [number, number] {
  const dots = model.layers.filter((layer) => layer.intensity && layer.roofline.flops_per_s)
    .map((layer): [number, number] => [axes.x(layer.intensity!), axes.y(layer.roofline.flops_per_s!)]);
  const room = ([x, y]: [number, number]) => dots.reduce((least, dot) => Math.min(least, Math.hypot(dot[0] - x, dot[1] - y)), Infinity);
  return spots.reduce((best, spot) => (room(spot) > room(best) ? spot : best));
}

// The label of a roof stands where its flat part begins: dots gather at the far end.
function roofs(model: EngineModel, used: ReadonlySet<string>, axes: Axes): SVGElement[] {
  const { peaks } = model.engine;
  const bandwidth = peaks.bytes_per_s;
  if (!bandwidth) return [];
  const [from, to] = axes.domain.x;
  const drawn = Object.entries(peaks.flops_per_s).filter(([name]) => used.has(name)).sort((a, b) => b[1] - a[1]);
  const top = drawn[0]?.[1] ?? axes.domain.y[1];
  const bound = (value: number) => Math.min(axes.box.bottom, Math.max(axes.box.top - 4, axes.y(value)));
  const knee = Math.min(to, top / bandwidth);
  const slope = s("path", { class: "roof", d: `M${axes.x(from)} ${axes.y(from * bandwidth)}L${axes.x(knee)} ${axes.y(knee * bandwidth)}` });
  const flat = drawn.map(([name, peak], i) => {
    const start = Math.max(from, Math.min(to, peak / bandwidth));
    return s("g", {}, s("path", { class: `roof precision-${precisionKey(name)}`, d: `M${axes.x(start)} ${bound(peak)}L${axes.x(to)} ${bound(peak)}` }),
      s("text", { x: Math.min(axes.x(start) + 10, axes.box.right - 130), y: bound(peak) + (i === 0 || bound(peak) - bound(drawn[i - 1]![1]) > 30 ? -6 : 13), class: "roof-label" }, `${name} ${numbers.flopsPerSecond(peak)}`));
  });
  const at = (t: number) => from * (knee / from) ** t;
  const angle = (Math.atan2(axes.y(at(1) * bandwidth) - axes.y(from * bandwidth), axes.x(at(1)) - axes.x(from)) * 180) / Math.PI;
  const spot = quietest(model, axes, [0.2, 0.35, 0.5, 0.65, 0.8].map((t): [number, number] => [axes.x(at(t)), axes.y(at(t) * bandwidth) - 7]));
  const label = s("text", { transform: `translate(${spot[0]},${spot[1]}) rotate(${angle})`, class: "centred roof-label" }, `memory ${numbers.bytesPerSecond(bandwidth)}`);
  const clip = s("clipPath", { id: "plot" }, s("rect", { x: axes.box.left, y: 0, width: axes.box.right - axes.box.left, height: axes.box.bottom }));
  return [clip, s("g", { "clip-path": "url(#plot)" }, slope, label), ...flat];
}

export function makeRoofline(store: Store): View {
  const { model } = store;
  const { peaks } = model.engine;
  const area = h("div", { class: "chart" });
  const key = h("div", { class: "legend" });
  const used = new Set(model.layers.map((layer) => layer.roofline.precision || layer.precision));

  function draw(): void {
    const bandwidth = peaks.bytes_per_s;
    const roof = Object.entries(peaks.flops_per_s).filter(([name]) => used.has(name)).map(([, value]) => value);
    const top = roof.reduce((a, b) => Math.max(a, b), 0);
    area.replaceChildren(drawScatter(model, {
      width: area.clientWidth || 800, height: 460, label: "Roofline", colours: store.state.colours, selected: store.state.selected, pick: (index) => store.focus(index),
      x: { title: "Operations per byte (flop/byte)", of: (i) => model.layers[i]!.intensity, show: (v) => numbers.plain(v, 2) },
      y: { title: "Operations per second", of: (i) => model.layers[i]!.roofline.flops_per_s, show: (v) => numbers.flopsPerSecond(v).replace(/flop\/s$/, "") },
      include: { x: bandwidth && top ? [(2 * top) / bandwidth] : [], y: top ? [top * 1.3] : [] },
      behind: (axes) => roofs(model, used, axes),
    }));
    key.replaceChildren(...legend(model, store.state.colours).map((entry) => swatch(entry.colour, entry.label)));
  }

  const verdicts = ["compute", "memory", "launch", "unknown"].map((verdict) => {
    const rows = model.layers.map((_, i) => i).filter((i) => model.layers[i]!.roofline.verdict === verdict);
    const time = rows.reduce((sum, row) => sum + (model.timeMs[row] || 0), 0);
    const recoverable = rows.reduce((sum, row) => sum + (model.layers[row]!.roofline.recoverable_ms ?? 0), 0);
    return { label: `${verdict} (${rows.length} layers)`, value: time, key: verdictKey(verdict), rows, text: `${numbers.milliseconds(time)} ms`, tip: `${rows.length} layers bound by ${verdict}\n${numbers.milliseconds(recoverable)} ms recoverable`,
      click: () => store.update({ selected: new Set(rows), focus: null }) };
  }).filter((bar) => bar.rows.length > 0);

  const order = model.layers.map((_, i) => i).filter((i) => (model.layers[i]!.roofline.recoverable_ms ?? 0) > 0)
    .sort((a, b) => model.layers[b]!.roofline.recoverable_ms! - model.layers[a]!.roofline.recoverable_ms! || a - b);
  const total = order.reduce((sum, i) => sum + model.layers[i]!.roofline.recoverable_ms!, 0);
  const table = simpleTable(["layer", "bound\u00a0by", "time ms", "% of roof", "recoverable ms"], order.slice(0, kRows).map((i) => {
    const layer = model.layers[i]!;
    return [h("button", { type: "button", class: "link", "data-layer-tip": i, click: () => store.focus(i) }, breakable(model.shortNames[i]!)), layer.roofline.verdict, numbers.milliseconds(layer.time?.average_ms),
      numbers.percent(layer.roofline.percent_of_roof), numbers.milliseconds(layer.roofline.recoverable_ms)];
  }), [2, 3, 4]);
  const facts = simpleTable(["peak", "value"], [...Object.entries(peaks.flops_per_s).map(([name, value]) => [name, numbers.flopsPerSecond(value)]),
    ["memory", numbers.bytesPerSecond(peaks.bytes_per_s)], ["launch", `${numbers.milliseconds(peaks.launch_ms)} ms`]], [1]);

  return {
    root: h("div", { class: "view roofline" },
      h("div", { class: "toolbar" }, choice("Colour", kColourModes, store.state.colours, (colours) => store.update({ colours })), key, h("span", { class: "spring" }), pngButton(() => `${model.engine.name}.roofline`, () => area.querySelector("svg"))),
      area, h("p", { class: "dim" }, kSources[peaks.source] ?? "", peaks.unstable && peaks.unstable.length > 0 ? ` Those of ${peaks.unstable.join(", ")} were different each time: take shares of the roof with care.` : "", " The area of a dot is the layer's time. A layer without operations (a copy, a reshape) has no dot."),
      h("div", { class: "columns" },
        section(peaks.source === "none" ? "Recoverable: not known without peaks" : `Recoverable: ${numbers.milliseconds(total)} ms if every layer reached 80 % of its roof`,
          order.length > 0 ? table : h("p", { class: "dim" }, peaks.source === "none" ? "Give them: lathe explore FILES --peaks=FP32=1.2T,memory=40G" : "Nothing: every layer that has a roof reaches 80 % of it."), order.length > kRows && h("p", { class: "dim" }, `and ${order.length - kRows} more: sort the table by Recoverable`)),
        h("div", {}, section("Time by what bounds it", barList(verdicts, "Time by verdict")), section("Peaks", facts)))),
    shown: draw,
    changed: (state: Readonly<State>, before: Readonly<State>) => {
      if (state.colours !== before.colours || state.selected !== before.selected) draw();
    },
  };
}
