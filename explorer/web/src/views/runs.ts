// SPDX-License-Identifier: Apache-2.0
//
// Every measured run as a dot: when it began, how long it took. What a busy machine does to an engine is seen here at a glance.
import * as numbers from "../data/numbers";
import { s } from "../ui/dom";

const kHeight = 260;
const kMargin = { left: 64, right: 10, top: 10, bottom: 36 };
const kDots = 6000;    // more are thinned, the slowest and fastest of each place kept
const kColumns = 160;  // places that say their numbers

interface Run { number: number; at: number; ms: number }

function thinned(runs: readonly Run[]): readonly Run[] {
  if (runs.length <= kDots) return runs;
  const size = Math.ceil(runs.length / (kDots / 2));
  const result: Run[] = [];
  for (let i = 0; i < runs.length; i += size) {
    const part = runs.slice(i, i + size);
    result.push(part.reduce((a, b) => (b.ms < a.ms ? b : a)), part.reduce((a, b) => (b.ms > a.ms ? b : a)));
  }
  return result;
}

// Dots as strokes of no length with round ends: one element for all of them.
function dots(runs: readonly Run[], x: (run: Run) => number, y: (ms: number) => number): SVGPathElement {
  return s("path", { class: "run-dots", "stroke-width": runs.length < 300 ? 6 : 3.5, d: thinned(runs).map((run) => `M${x(run).toFixed(1)} ${y(run.ms).toFixed(1)}h0`).join("") });
}

export function drawRuns(computeMs: readonly number[], startMs: readonly number[], width: number): SVGSVGElement {
  const timed = startMs.length === computeMs.length && startMs.some((start) => start > 0);
  const first = timed ? startMs.reduce((a, b) => Math.min(a, b)) : 0;
  const runs = computeMs.map((ms, i): Run => ({ number: i, at: timed ? (startMs[i]! - first) / 1000 : i, ms })).sort((a, b) => a.at - b.at);
  const end = runs.reduce((most, run) => Math.max(most, run.at), 0) || 1;
  const least = runs.reduce((a, run) => Math.min(a, run.ms), Infinity);
  const most = runs.reduce((a, run) => Math.max(a, run.ms), 0) || 1;
  // Where all are alike the differences are the point, and the axis need not begin at 0.
  const base = least > most * 0.7 ? least - (most - least || most * 0.05) * 0.5 : 0;
  const [right, bottom] = [width - kMargin.right, kHeight - kMargin.bottom];
  const x = (run: Run) => kMargin.left + 4 + ((right - kMargin.left - 8) * run.at) / end;
  const y = (ms: number) => bottom - ((bottom - kMargin.top) * (ms - base)) / ((most - base) * 1.04 || 1);
  const sorted = [...computeMs].sort((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const places: Run[][] = Array.from({ length: kColumns }, () => []);
  for (const run of runs) places[Math.min(kColumns - 1, Math.floor((run.at / end) * kColumns))]!.push(run);
  const column = (right - kMargin.left) / kColumns;
  return s("svg", { class: "runs", width, height: kHeight, viewBox: `0 0 ${width} ${kHeight}`, role: "img", "aria-label": `${runs.length} runs over time` },
    s("g", { class: "axis" }, numbers.ticks(base, most, 5).map((tick) => s("g", {}, s("line", { x1: kMargin.left, x2: right, y1: y(tick), y2: y(tick) }), s("text", { x: kMargin.left - 6, y: y(tick) + 4, class: "end" }, numbers.tick(tick)))),
      numbers.ticks(0, end, 8).filter((tick) => tick <= end).map((tick) => s("text", { x: kMargin.left + 4 + ((right - kMargin.left - 8) * tick) / end, y: bottom + 15, class: "centred" }, timed ? `${numbers.tick(tick)} s` : numbers.tick(tick))),
      s("text", { x: (kMargin.left + right) / 2, y: kHeight - 4, class: "centred axis-title" }, timed ? "when the run began" : "run")),
    s("line", { x1: kMargin.left, x2: right, y1: y(median), y2: y(median), class: "median-line" }),
    s("text", { x: right - 2, y: bottom - 6, class: "end roof-label" }, `median ${numbers.milliseconds(median)} ms`),
    dots(runs, x, y),
    places.map((place, i) => place.length > 0 && s("rect", { x: (kMargin.left + i * column).toFixed(1), y: kMargin.top, width: column.toFixed(1), height: bottom - kMargin.top, class: "run-place",
      "data-tip": place.length === 1 ? `run ${place[0]!.number}: ${numbers.milliseconds(place[0]!.ms)} ms`
        : `${place.length} runs: ${numbers.milliseconds(Math.min(...place.map((run) => run.ms)))} … ${numbers.milliseconds(Math.max(...place.map((run) => run.ms)))} ms` })));
}
