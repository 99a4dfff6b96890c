// SPDX-License-Identifier: Apache-2.0
//
// Time and counts by type, precision and tactic in several forms, single runs over time, and dots over any two quantities.
import { groupBy } from "../data/aggregate";
import { groupFamily, legend } from "../data/engine_model";
import { metricsOf, type Metric } from "../data/metrics";
import { moduleTree } from "../data/modules";
import * as numbers from "../data/numbers";
import { colour, precisionKey } from "../data/palette";
import { breakable, choice, h, section, simpleTable, swatch } from "../ui/dom";
import { pictureSection } from "../ui/picture";
import type { State, Store } from "../ui/store";
import { drawDonut, drawSunburst, drawTreemap, type Slice } from "./area_charts";
import { barList } from "./bars";
import { kColourModes } from "./graph";
import { drawHistogram, drawPerLayer } from "./per_layer";
import { drawFlame, drawModuleTreemap } from "./module_charts";
import { drawRuns } from "./runs";
import { drawScatter } from "./scatter";
import { groupBars, typeKey } from "./summary";
import type { View } from "./view";

const kTactics = 40;

export function makeCharts(store: Store): View {
  const { model } = store;
  const { engine } = model;
  const pick = (rows: readonly number[]) => store.update({ selected: new Set(rows), focus: rows.length === 1 ? rows[0]! : null });
  const areas = { treemap: h("div", { class: "chart" }), sunburst: h("div", { class: "chart middle" }), runs: h("div", { class: "chart" }), layers: h("div", { class: "chart" }), histogram: h("div", { class: "chart" }), scatter: h("div", { class: "chart" }) };
  let axes = { x: "intensity", y: "flop_rate" };
  const tree = moduleTree(model);
  const modules = { flame: h("div", { class: "chart" }), treemap: h("div", { class: "chart" }) };

  const byType = h("div", {});
  const byPrecision = h("div", {});
  function drawBars(what: "time" | "count"): void {
    byType.replaceChildren(barList(groupBars(store, engine.groups.by_type, typeKey(store), what), "By type"));
    byPrecision.replaceChildren(h("h3", {}, "Arithmetic"), barList(groupBars(store, engine.groups.by_precision, (group) => precisionKey(group.key), what), "By precision"),
      h("h3", {}, "Output"), barList(groupBars(store, engine.groups.by_output_precision, (group) => precisionKey(group.key), what), "By output precision"));
  }
  drawBars("time");

  function slices(groups: typeof engine.groups.by_precision, what: "count" | "time"): Slice[] {
    return groups.map((group) => ({ name: group.key || "unknown", value: what === "count" ? group.count : group.time_ms ?? 0, rows: group.layers,
      text: what === "count" ? `${group.count} layers` : `${numbers.milliseconds(group.time_ms)} ms`, key: precisionKey(group.key) }));
  }
  const timed = model.maxMs > 0;
  const donuts = h("div", { class: "donuts" }, drawDonut(slices(engine.groups.by_precision, "count"), 170, "layers", pick),
    timed && drawDonut(slices(engine.groups.by_precision, "time"), 170, "time", pick), drawDonut(slices(engine.groups.by_output_precision, "count"), 170, "by output", pick));
  const precisions = [...new Set([...engine.groups.by_precision, ...engine.groups.by_output_precision].map((group) => group.key))];
  const precisionLegend = h("div", { class: "legend" }, precisions.map((name) => swatch(colour(precisionKey(name)), name || "unknown")));

  // Precision inside each type, as stacked bars.
  function precisionPerType(): HTMLElement {
    return barList(groupBy(model, model.layers.map((_, i) => i), (row) => model.layers[row]!.type).map((group) => ({
      label: group.key || "unknown", value: group.rows.length, key: groupFamily(model, group.rows), text: String(group.rows.length),
      parts: groupBy(model, group.rows, (row) => model.layers[row]!.precision || "unknown").map((part) => ({ value: part.rows.length, key: precisionKey(part.key), tip: `${group.key} in ${part.key}: ${part.rows.length} layers` })),
      click: () => pick(group.rows),
    })), "Precisions used per layer type");
  }

  function drawRunsArea(): void {
    const times = engine.iterations;
    if (!times || times.compute_ms.length === 0) areas.runs.replaceChildren(h("p", { class: "dim" }, "No times file was read: single runs are not known."));
    else areas.runs.replaceChildren(drawRuns(times.compute_ms, times.start_ms, areas.runs.clientWidth || 600));
  }

  function drawModules(): void {
    if (!tree || !timed) return;
    modules.flame.replaceChildren(drawFlame(model, tree, modules.flame.clientWidth || 900, pick));
    modules.treemap.replaceChildren(drawModuleTreemap(model, tree, modules.treemap.clientWidth || 600, 380, pick));
  }

  const metrics = metricsOf(model);
  const types = [...new Set(model.layers.map((layer) => layer.type))].sort();
  let quantity: Metric | undefined = metrics.find((metric) => metric.id === "time") ?? metrics[0];
  let only = "";

  function drawPerLayerArea(): void {
    if (!quantity) return;
    const rows = model.layers.map((_, i) => i).filter((i) => only === "" || model.layers[i]!.type === only);
    const options = { width: areas.layers.clientWidth || 600, metric: quantity, rows, colours: store.state.colours, selected: store.state.selected, pick };
    areas.layers.replaceChildren(drawPerLayer(model, options));
    areas.histogram.replaceChildren(drawHistogram(model, { ...options, width: areas.histogram.clientWidth || 500 }));
  }

  function quantityChoice(): HTMLElement[] {
    const what = h("select", { "aria-label": "quantity" }, metrics.map((metric) => h("option", { value: metric.id, selected: metric === quantity }, metric.title)));
    what.addEventListener("change", () => {
      quantity = metrics.find((metric) => metric.id === what.value);
      drawPerLayerArea();
    });
    const which = h("select", { "aria-label": "only type" }, h("option", { value: "" }, "all types"), types.map((type) => h("option", { value: type }, type || "unknown")));
    which.addEventListener("change", () => {
      only = which.value;
      drawPerLayerArea();
    });
    return [h("label", {}, "Quantity ", what), h("label", {}, "of ", which)];
  }

  function metricChoice(side: "x" | "y"): HTMLElement {
    const select = h("select", { "aria-label": `${side} axis` }, metrics.map((metric) => h("option", { value: metric.id, selected: metric.id === axes[side] }, metric.title)));
    select.addEventListener("change", () => {
      axes = { ...axes, [side]: select.value };
      drawDots();
    });
    return h("label", {}, `${side}: `, select);
  }

  function drawDots(): void {
    const metric = (id: string) => metrics.find((one) => one.id === id);
    const [x, y] = [metric(axes.x), metric(axes.y)];
    if (!x || !y) {
      areas.scatter.replaceChildren(h("p", { class: "dim" }, "Neither operations nor bytes are known."));
      return;
    }
    areas.scatter.replaceChildren(drawScatter(model, {
      width: areas.scatter.clientWidth || 600, height: 380, label: `${y.title} over ${x.title}`, colours: store.state.colours, selected: store.state.selected, pick: (index) => store.focus(index),
      x: { title: x.title, of: (i) => x.read(model, i), show: x.show }, y: { title: y.title, of: (i) => y.read(model, i), show: y.show },
    }), h("div", { class: "legend" }, legend(model, store.state.colours).map((entry) => swatch(entry.colour, entry.label))));
  }

  function drawAll(): void {
    if (!timed) {
      for (const area of [areas.treemap, areas.sunburst]) area.replaceChildren(h("p", { class: "dim" }, "No layer times."));
    } else {
      areas.treemap.replaceChildren(drawTreemap(model, areas.treemap.clientWidth || 600, 380, pick));
      areas.sunburst.replaceChildren(drawSunburst(model, Math.min(380, areas.sunburst.clientWidth || 380), pick));
    }
    drawModules();
    drawRunsArea();
    drawPerLayerArea();
    drawDots();
  }

  const tactics = engine.groups.by_tactic;
  const root = h("div", { class: "view charts" },
    h("div", { class: "toolbar" }, choice("Bars show", [["time", "Time"], ["count", "Number of layers"]], "time", drawBars)),
    tree && timed && pictureSection("Modules: width is time, inwards from the whole engine to its layers", "modules_flame", modules.flame),
    pictureSection("One quantity per layer, in execution order", "per_layer", areas.layers, h("div", { class: "toolbar" }, ...quantityChoice(), choice("Colour", kColourModes, store.state.colours, (colours) => store.update({ colours })))),
    h("div", { class: "columns" },
      pictureSection("Its distribution: layers per size of the quantity", "histogram", areas.histogram),
      section("By type", byType), section("By precision", byPrecision),
      pictureSection("Treemap: type, then layer; area is time", "treemap", areas.treemap), tree && timed && pictureSection("Treemap: module, then layer; area is time", "modules_treemap", modules.treemap),
      pictureSection("Sunburst: type, precision, layer; angle is time", "sunburst", areas.sunburst),
      section("Shares by precision", donuts, precisionLegend), section("Precisions used per layer type (number of layers)", precisionPerType(), precisionLegend.cloneNode(true)),
      pictureSection("Every run", "runs", areas.runs),
      pictureSection("Any two quantities", "scatter", areas.scatter, h("div", { class: "toolbar" }, metricChoice("x"), metricChoice("y"), choice("Colour", kColourModes, store.state.colours, (colours) => store.update({ colours })))),
      section(`Tactics${tactics.length > kTactics ? ` (the first ${kTactics} of ${tactics.length})` : ""}`, simpleTable(["tactic", "layers", "ms", "%"],
        tactics.slice(0, kTactics).map((group) => [h("button", { type: "button", class: "link", click: () => store.update({ view: "layers", selected: new Set(group.layers), focus: null }) }, breakable(group.key || "not known")),
          group.count, numbers.milliseconds(group.time_ms), numbers.percent(group.percent)]), [1, 2, 3]))));
  return {
    root,
    shown: drawAll,
    changed: (state: Readonly<State>, before: Readonly<State>) => {
      if (state.colours !== before.colours || state.selected !== before.selected) {
        drawDots();
        drawPerLayerArea();
      }
    },
  };
}
