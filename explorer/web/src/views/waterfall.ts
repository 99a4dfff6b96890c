// SPDX-License-Identifier: Apache-2.0
//
// From one engine's layer sum to the other's: a bar per change, each beginning where the one before ended, so that the
// last ends at the second sum. A table of the same numbers follows for readers who add up.
import { shortPath } from "../data/engine_model";
import * as numbers from "../data/numbers";
import type { WaterfallItem } from "../data/schema";
import { s } from "../ui/dom";
import { fitText } from "../ui/text_width";

const kRow = 24;
const kValue = 96;

export function drawWaterfall(from: number, to: number, items: readonly WaterfallItem[], width: number, names: readonly [string, string], pick: (rows: readonly number[]) => void): SVGSVGElement {
  const levels = [0, from, to];
  let level = from;
  const bars = items.map((item) => {
    const start = level;
    level += item.delta_ms;
    levels.push(level);
    return { item, start, end: level };
  });
  const [low, high] = [levels.reduce((a, b) => Math.min(a, b)), levels.reduce((a, b) => Math.max(a, b))];
  const kLabel = Math.min(290, width * 0.36);
  // Small changes of a large sum would be slivers on an axis from 0: it is cut to what changes.
  const touched = [from, to, ...bars.flatMap((bar) => [bar.start, bar.end])];
  const least = touched.reduce((a, b) => Math.min(a, b));
  const cut = least - (high - least) * 0.3;
  const base = high > least && cut > low + (high - low) * 0.05 ? cut : low;
  const right = width - kValue;
  const x = (value: number) => kLabel + ((right - kLabel) * (value - base)) / (high - base || 1);
  const line = (i: number, label: string, a: number, b: number, value: string, kind: string, tip: string, click?: () => void) => s("g", { class: `fall ${kind}`, "data-tip": tip, click },
    s("text", { x: 0, y: i * kRow + 16 }, fitText(label, kLabel - 12, { keepEnd: true })),
    s("rect", { x: Math.min(x(a), x(b)).toFixed(1), width: Math.max(1, Math.abs(x(b) - x(a))).toFixed(1), y: i * kRow + 3, height: kRow - 7 }),
    s("text", { x: width, y: i * kRow + 16, class: "end" }, value));
  const height = (items.length + 2) * kRow + (base > 0 ? 16 : 0);
  return s("svg", { class: "waterfall", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Waterfall from ${names[0]} to ${names[1]}` },
    line(0, names[0], base, from, `${numbers.milliseconds(from)} ms`, "total", `${names[0]}: ${from} ms`),
    bars.map(({ item, start, end }, i) => [
      s("line", { x1: x(start), x2: x(start), y1: i * kRow + 3, y2: (i + 2) * kRow - 4, class: "fall-link" }),
      line(i + 1, shortPath(item.label), start, end, `${numbers.signedMilliseconds(item.delta_ms)} ms`, item.delta_ms > 0 ? "slower" : "faster",
        `${item.label}\n${item.delta_ms} ms in ${item.rows.length} rows`, () => pick(item.rows)),
    ]).flat(),
    line(items.length + 1, names[1], base, to, `${numbers.milliseconds(to)} ms`, "total", `${names[1]}: ${to} ms`),
    base > 0 && s("text", { x: kLabel, y: height - 3, class: "dim" }, `The axis begins at ${numbers.milliseconds(base)} ms, not at 0.`));
}
