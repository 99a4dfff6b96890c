// SPDX-License-Identifier: Apache-2.0
//
// Latency over batch, a line per engine, and beside it what counts when there is much to do: items per second.
import * as numbers from "../data/numbers";
import type { Engine } from "../data/schema";
import { sweepOf, type Sweep, type SweepPoint } from "../data/sweep";
import { h, s, swatch } from "../ui/dom";
import { colour } from "../data/palette";
import { pictureSection } from "../ui/picture";

const kHeight = 260;
const kMargin = { left: 64, right: 20, top: 14, bottom: 40 };
const kKeys = ["blue", "orange", "green", "purple", "sky", "vermillion", "dark", "yellow"];

function drawLines(sweep: Sweep, width: number, title: string, value: (point: SweepPoint) => number, show: (value: number) => string): SVGSVGElement {
  const points = sweep.lines.flatMap((line) => line.points);
  const xs = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  const most = points.reduce((max, point) => Math.max(max, value(point)), 0) || 1;
  const [left, right, bottom] = [kMargin.left, width - kMargin.right, kHeight - kMargin.bottom];
  // Sizes double from step to step: equal ratios are equal distances.
  const [low, high] = [Math.log2(xs[0]!), Math.log2(xs[xs.length - 1]!)];
  const x = (at: number) => left + 12 + ((right - left - 24) * (Math.log2(at) - low)) / (high - low || 1);
  const y = (at: number) => bottom - ((bottom - kMargin.top) * at) / most;
  const ticks = numbers.ticks(0, most, 5);
  return s("svg", { class: "sweep-lines", width, height: kHeight, viewBox: `0 0 ${width} ${kHeight}`, role: "img", "aria-label": title },
    s("g", { class: "axis" }, ticks.map((tick) => s("g", {}, s("line", { x1: left, x2: right, y1: y(tick), y2: y(tick) }), s("text", { x: left - 6, y: y(tick) + 4, class: "end" }, numbers.tick(tick)))),
      xs.map((at) => s("text", { x: x(at), y: bottom + 15, class: "centred" }, String(at))),
      s("text", { x: (left + right) / 2, y: kHeight - 5, class: "centred axis-title" }, sweep.axis)),
    sweep.lines.map((line, i) => {
      const key = kKeys[i % kKeys.length]!;
      return s("g", {}, s("path", { class: "sweep-line", style: `stroke:var(--k-${key})`, d: `M${line.points.map((point) => `${x(point.x).toFixed(1)} ${y(value(point)).toFixed(1)}`).join("L")}` }),
        line.points.map((point) => s("circle", { cx: x(point.x).toFixed(1), cy: y(value(point)).toFixed(1), r: 4.5, class: `dot k-${key}`, "data-tip": `${line.name}, ${sweep.axis} ${point.x}\n${show(value(point))}` })));
    }));
}

export function makeSweepChart(engines: readonly Engine[]): { root: HTMLElement; draw: () => void } | null {
  const sweep = sweepOf(engines);
  if (!sweep) return null;
  const [latency, rate] = [h("div", { class: "chart" }), h("div", { class: "chart" })];
  const key = () => (sweep.lines.length > 1 ? h("div", { class: "legend" }, sweep.lines.map((line, i) => swatch(colour(kKeys[i % kKeys.length]!), line.name))) : null);
  const root = h("div", { class: "columns" },
    pictureSection(`Latency over ${sweep.axis}, ms`, "latency", latency, key()),
    sweep.isBatch && pictureSection("Items per second over batch", "items_per_second", rate, key()));
  return {
    root,
    draw: () => {
      latency.replaceChildren(drawLines(sweep, latency.clientWidth || 500, `Latency over ${sweep.axis}`, (point) => point.ms, (value) => `${numbers.milliseconds(value)} ms`));
      if (sweep.isBatch) rate.replaceChildren(drawLines(sweep, rate.clientWidth || 500, "Items per second", (point) => (1000 * point.x) / point.ms, (value) => `${numbers.plain(value)} items/s`));
    },
  };
}
