// SPDX-License-Identifier: Apache-2.0
//
// Layers as dots over two quantities, both axes logarithmic; the area of a dot is its time. The roofline is one of these
// with a roof; the charts view has one with axes to choose.
import { layerColour, type ColourMode, type EngineModel } from "../data/engine_model";
import { h, s } from "../ui/dom";

export interface ScatterOptions {
  width: number;
  height: number;
  x: { title: string; of: (index: number) => number | null | undefined; show: (value: number) => string };
  y: { title: string; of: (index: number) => number | null | undefined; show: (value: number) => string };
  colours: ColourMode;
  selected: ReadonlySet<number>;
  pick: (index: number) => void;
  include?: { x: number[]; y: number[] };       // values that must be in sight
  behind?: (axes: Axes) => SVGElement[];        // what the dots stand on
  label: string;
}

export interface Axes { x: (value: number) => number; y: (value: number) => number; box: { left: number; right: number; top: number; bottom: number }; domain: { x: [number, number]; y: [number, number] } }

const kMargin = { left: 74, right: 16, top: 12, bottom: 40 };

function domainOf(values: readonly number[]): [number, number] {
  const positive = values.filter((value) => value > 0 && Number.isFinite(value));
  if (positive.length === 0) return [0.1, 10];
  const low = Math.log10(positive.reduce((a, b) => Math.min(a, b)));
  const high = Math.log10(positive.reduce((a, b) => Math.max(a, b)));
  const pad = Math.max(0.15, (high - low) * 0.06);
  return [10 ** (low - pad), 10 ** (high + pad)];
}

// Powers of ten; with few of them in sight also 2 and 5 times.
export function logTicks([from, to]: readonly [number, number]): number[] {
  const decades = Math.log10(to / from);
  const factors = decades > 3 ? [1] : decades > 1.5 ? [1, 3] : [1, 2, 5];
  const skip = Math.max(1, Math.ceil(decades / 9));
  const result: number[] = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.ceil(Math.log10(to)); power += 1) {
    if (power % skip !== 0) continue;
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= from && value <= to) result.push(value);
    }
  }
  return result;
}

export function drawScatter(model: EngineModel, options: ScatterOptions): HTMLElement {
  const points = model.layers.map((_, index) => ({ index, x: options.x.of(index) ?? NaN, y: options.y.of(index) ?? NaN }))
    .filter((point) => point.x > 0 && point.y > 0 && Number.isFinite(point.x) && Number.isFinite(point.y));
  if (points.length === 0) return h("p", { class: "dim" }, "No layer has both quantities.");
  const domain = { x: domainOf([...points.map((p) => p.x), ...(options.include?.x ?? [])]), y: domainOf([...points.map((p) => p.y), ...(options.include?.y ?? [])]) };
  const box = { left: kMargin.left, right: options.width - kMargin.right, top: kMargin.top, bottom: options.height - kMargin.bottom };
  const axis = ([from, to]: [number, number], low: number, high: number) => (value: number) => low + (Math.log(value / from) / Math.log(to / from)) * (high - low);
  const axes: Axes = { x: axis(domain.x, box.left, box.right), y: axis(domain.y, box.bottom, box.top), box, domain };
  const most = Math.sqrt(model.maxMs || 1);
  // Large dots first, so that they do not hide small ones.
  points.sort((a, b) => (model.timeMs[b.index] || 0) - (model.timeMs[a.index] || 0));
  const dots = points.map(({ index, x, y }) => s("circle", {
    cx: axes.x(x).toFixed(1), cy: axes.y(y).toFixed(1), r: (3 + (11 * Math.sqrt(model.timeMs[index] || 0)) / most).toFixed(1),
    class: `dot k-${layerColour(model, index, options.colours).key}${options.selected.has(index) ? " selected" : ""}`,
    "data-layer": index, "data-layer-tip": index, click: () => options.pick(index),
  }));
  const grid = s("g", { class: "axis" },
    logTicks(domain.x).map((value) => s("g", {}, s("line", { x1: axes.x(value), x2: axes.x(value), y1: box.top, y2: box.bottom }),
      s("text", { x: axes.x(value), y: box.bottom + 15, class: "centred" }, options.x.show(value)))),
    logTicks(domain.y).map((value) => s("g", {}, s("line", { x1: box.left, x2: box.right, y1: axes.y(value), y2: axes.y(value) }),
      s("text", { x: box.left - 6, y: axes.y(value) + 4, class: "end" }, options.y.show(value)))),
    s("text", { x: (box.left + box.right) / 2, y: options.height - 6, class: "centred axis-title" }, options.x.title),
    s("text", { transform: `translate(13,${(box.top + box.bottom) / 2}) rotate(-90)`, class: "centred axis-title" }, options.y.title));
  const marks = dots.filter((dot) => dot.classList.contains("selected"));
  const svg = s("svg", { class: "scatter", width: options.width, height: options.height, viewBox: `0 0 ${options.width} ${options.height}`, role: "group", "aria-label": options.label },
    grid, options.behind?.(axes) ?? [], s("g", {}, dots, marks));
  return h("div", {}, svg);
}
