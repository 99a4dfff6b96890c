// SPDX-License-Identifier: Apache-2.0
//
// One quantity of every layer: as bars in execution order, and as a histogram. With more layers than pixels a bar is the
// greatest of its neighbours, so that no peak is lost.
import { layerColour, type ColourMode, type EngineModel } from "../data/engine_model";
import type { Metric } from "../data/metrics";
import * as numbers from "../data/numbers";
import { h, s } from "../ui/dom";

const kHeight = 240;
const kMargin = { left: 78, right: 8, top: 8, bottom: 34 };
const kLeastBar = 2;
const kBins = 40;
const kHistogramLeft = 46;

export interface PerLayerOptions { width: number; metric: Metric; rows: readonly number[]; colours: ColourMode; selected: ReadonlySet<number>; pick: (rows: readonly number[]) => void }

function known({ metric, rows }: PerLayerOptions, model: EngineModel): { row: number; value: number }[] {
  return rows.map((row) => ({ row, value: metric.read(model, row) ?? NaN })).filter(({ value }) => Number.isFinite(value));
}

export function drawPerLayer(model: EngineModel, options: PerLayerOptions): Element {
  const values = known(options, model);
  if (values.length === 0) return h("p", { class: "dim" }, "Not known of any of these layers.");
  const [right, bottom] = [options.width - kMargin.right, kHeight - kMargin.bottom];
  const most = values.reduce((max, { value }) => Math.max(max, value), 0) || 1;
  const perBar = Math.max(1, Math.ceil((values.length * kLeastBar) / (right - kMargin.left)));
  const bars: { row: number; value: number; of: number }[] = [];
  for (let i = 0; i < values.length; i += perBar) {
    const part = values.slice(i, i + perBar);
    bars.push({ ...part.reduce((a, b) => (b.value > a.value ? b : a)), of: part.length });
  }
  const step = (right - kMargin.left) / bars.length;
  const y = (value: number) => bottom - ((bottom - kMargin.top) * Math.max(0, value)) / most;
  const ticks = /byte/i.test(options.metric.title) ? numbers.byteTicks(most, 5) : numbers.ticks(0, most, 5);
  const every = Math.max(1, Math.ceil(bars.length / Math.max(1, Math.floor((right - kMargin.left) / 60))));
  return s("svg", { class: "per-layer", width: options.width, height: kHeight, viewBox: `0 0 ${options.width} ${kHeight}`, role: "group", "aria-label": `${options.metric.title} per layer` },
    s("g", { class: "axis" }, ticks.map((tick) => s("g", {}, s("line", { x1: kMargin.left, x2: right, y1: y(tick), y2: y(tick) }), s("text", { x: kMargin.left - 6, y: y(tick) + 4, class: "end" }, /(ms|%)$/.test(options.metric.title) ? numbers.tick(tick) : options.metric.show(tick)))),
      bars.map((bar, i) => i % every === 0 && s("text", { x: (kMargin.left + (i + 0.5) * step).toFixed(1), y: bottom + 14, class: "centred" }, String(bar.row))),
      s("text", { x: (kMargin.left + right) / 2, y: kHeight - 4, class: "centred axis-title" }, perBar === 1 ? "layer" : `layer; each bar is the greatest of ${perBar}`)),
    bars.map((bar, i) => s("rect", {
      x: (kMargin.left + i * step).toFixed(1), width: Math.max(0.8, step * 0.9).toFixed(1), y: y(bar.value).toFixed(1), height: Math.max(0, bottom - y(bar.value)).toFixed(1),
      class: `cell layer-bar k-${layerColour(model, bar.row, options.colours).key}${options.selected.has(bar.row) ? " selected" : ""}`, "data-layer": bar.row,
      "data-tip": `${model.layers[bar.row]!.name}\n${options.metric.title}: ${options.metric.show(bar.value)}${bar.of > 1 ? `\nthe greatest of ${bar.of}` : ""}`, click: () => options.pick([bar.row]),
    })));
}

// Bins of equal ratio: layers differ by factors, not by amounts.
export function drawHistogram(model: EngineModel, options: PerLayerOptions): Element {
  const values = known(options, model).filter(({ value }) => value > 0);
  if (values.length === 0) return h("p", { class: "dim" }, "Not known of any of these layers, or 0.");
  const low = Math.log10(values.reduce((least, { value }) => Math.min(least, value), Infinity));
  const high = Math.log10(values.reduce((most, { value }) => Math.max(most, value), 0));
  const bins: number[][] = Array.from({ length: kBins }, () => []);
  for (const { row, value } of values) bins[Math.min(kBins - 1, Math.floor(((Math.log10(value) - low) / (high - low || 1)) * kBins))]!.push(row);
  const most = bins.reduce((max, bin) => Math.max(max, bin.length), 1);
  const edge = (i: number) => options.metric.show(10 ** (low + ((high - low) * i) / kBins));
  const tip = (bin: readonly number[], i: number) => `${edge(i)} … ${edge(i + 1)}: ${bin.length} layers`;
  const [left, right, bottom] = [kHistogramLeft, options.width - kMargin.right - 14, kHeight - kMargin.bottom];
  const step = (right - left) / kBins;
  const y = (count: number) => bottom - ((bottom - kMargin.top) * count) / most;
  const ticks = numbers.ticks(0, most, 5).filter(Number.isInteger);
  const labels = options.width > 460 ? [0, 10, 20, 30, 40] : [0, 20, 40];
  return s("svg", { class: "histogram", width: options.width, height: kHeight, viewBox: `0 0 ${options.width} ${kHeight}`, role: "group", "aria-label": `Distribution of ${options.metric.title}` },
    s("g", { class: "axis" }, ticks.map((tick) => s("g", {}, s("line", { x1: left, x2: right, y1: y(tick), y2: y(tick) }), s("text", { x: left - 6, y: y(tick) + 4, class: "end" }, String(tick)))),
      labels.map((i) => s("text", { x: (left + i * step).toFixed(1), y: bottom + 14, class: i === 0 ? "" : i === kBins ? "end" : "centred" }, edge(i))),
      s("text", { x: (left + right) / 2, y: kHeight - 4, class: "centred axis-title" }, options.metric.title),
      s("text", { transform: `translate(12,${(kMargin.top + bottom) / 2}) rotate(-90)`, class: "centred axis-title" }, "layers")),
    bins.map((bin, i) => bin.length > 0 && s("g", { class: "cell bin", "data-tip": tip(bin, i), click: () => options.pick(bin) },
      s("rect", { x: (left + i * step + 0.5).toFixed(1), width: Math.max(1, step - 1).toFixed(1), y: y(bin.length).toFixed(1), height: (bottom - y(bin.length)).toFixed(1), class: "k-sky" }))));
}
