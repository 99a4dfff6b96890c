// SPDX-License-Identifier: Apache-2.0
//
// Charts whose area or angle is time: treemap, sunburst, donut. Layers too small to see are joined, or ten thousand
// shapes would be made for nothing.
import { hierarchy, partition, treemap, treemapSquarify, type HierarchyRectangularNode } from "d3-hierarchy";
import { arc } from "d3-shape";
import { groupBy } from "../data/aggregate";
import { groupFamily, type EngineModel } from "../data/engine_model";
import * as numbers from "../data/numbers";
import { precisionKey } from "../data/palette";
import { s } from "../ui/dom";
import { fitText, textWidth } from "../ui/text_width";

interface Part { name: string; key: string; value: number; rows: number[]; children?: Part[] }

const kLeastShare = 0.0004;
const kLeastName = 14; // characters: fewer of a layer's name say nothing

function leaf(model: EngineModel, row: number, key: string): Part {
  return { name: model.shortNames[row]!, key, value: model.timeMs[row] || 0, rows: [row] };
}

// Layers of a group; those below kLeastShare of all become one part.
function leaves(model: EngineModel, rows: readonly number[], key: string): Part[] {
  const limit = model.sumMs * kLeastShare;
  const large = rows.filter((row) => (model.timeMs[row] || 0) >= limit);
  const small = rows.filter((row) => (model.timeMs[row] || 0) < limit);
  const parts = large.map((row) => leaf(model, row, key));
  const rest = small.reduce((sum, row) => sum + (model.timeMs[row] || 0), 0);
  if (rest > 0) parts.push({ name: `${small.length} small layers`, key, value: rest, rows: small });
  return parts;
}

function byType(model: EngineModel, inner: "layers" | "precision"): Part {
  const all = model.layers.map((_, i) => i);
  const children = groupBy(model, all, (row) => model.layers[row]!.type).map((group): Part => {
    const key = groupFamily(model, group.rows);
    const parts = inner === "layers" ? leaves(model, group.rows, key) :
      groupBy(model, group.rows, (row) => model.layers[row]!.precision || "unknown").map((sub): Part => ({
        name: sub.key, key: precisionKey(sub.key), value: sub.timeMs, rows: sub.rows, children: leaves(model, sub.rows, key),
      }));
    return { name: group.key, key, value: group.timeMs, rows: group.rows, children: parts };
  });
  return { name: model.engine.name, key: "grey", value: 0, rows: all, children };
}

function tip(model: EngineModel, part: Part, path: string): string {
  const name = part.rows.length === 1 ? model.layers[part.rows[0]!]!.name : `${path} (${part.rows.length} layers)`;
  return `${name}\n${numbers.milliseconds(part.rows.reduce((sum, row) => sum + (model.timeMs[row] || 0), 0))} ms, ` +
    `${numbers.percent((100 * part.rows.reduce((sum, row) => sum + (model.timeMs[row] || 0), 0)) / (model.sumMs || NaN), 2)} %`;
}

function layout(model: EngineModel, inner: "layers" | "precision") {
  return hierarchy(byType(model, inner)).sum((part) => (part.children ? 0 : part.value)).sort((a, b) => (b.value ?? 0) - (a.value ?? 0));
}

type Pick = (rows: readonly number[]) => void;

export function drawTreemap(model: EngineModel, width: number, height: number, pick: Pick): SVGSVGElement {
  const root = treemap<Part>().size([width, height]).tile(treemapSquarify).paddingInner(1).paddingOuter(1).paddingTop((node) => (node.depth === 1 ? 17 : 1))(layout(model, "layers"));
  const cells = root.descendants().filter((node) => node.depth > 0 && node.x1 - node.x0 > 0.5 && node.y1 - node.y0 > 0.5).map((node) => {
    const [w, t] = [node.x1 - node.x0, node.y1 - node.y0];
    const isGroup = node.depth === 1;
    const group = s("g", { class: isGroup ? "cell group" : "cell", "data-tip": tip(model, node.data, node.data.name), click: () => pick(node.data.rows) },
      s("rect", { x: node.x0.toFixed(1), y: node.y0.toFixed(1), width: w.toFixed(1), height: t.toFixed(1), class: isGroup ? "cell-group" : `k-${node.data.key}` }));
    const titled = `${node.data.name} ${numbers.percent((100 * (node.value ?? 0)) / (root.value || 1))} %`;
    const whole = isGroup && textWidth(titled, true) <= w - 7 ? titled : node.data.name;
    const text = t < 15 ? "" : fitText(whole, w - 7, { bold: isGroup, least: isGroup ? 3 : kLeastName });
    if (text !== "") group.append(s("text", { x: (node.x0 + 4).toFixed(1), y: (node.y0 + 13).toFixed(1), class: isGroup ? "cell-title" : `k-${node.data.key}` }, text));
    return group;
  });
  return s("svg", { class: "treemap", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Treemap of time by type and layer" }, cells);
}

// Along the arc where it is long enough for the name, else outwards; none where neither has room.
function sunburstLabel(node: HierarchyRectangularNode<Part>, inner: number, outer: number): SVGTextElement | null {
  const { name, key } = node.data;
  const middle = (node.x0 + node.x1) / 2;
  const at = (inner + outer) / 2;
  const arcLength = (node.x1 - node.x0) * at;
  const along = arcLength > textWidth(name) + 8 && outer - inner > 15;
  const text = along ? name : arcLength < 15 ? "" : fitText(name, outer - inner - 6);
  if (text === "") return null;
  const turn = (middle * 180) / Math.PI - 90;
  const flip = along ? (Math.cos(middle) < 0 ? -90 : 90) : middle > Math.PI ? 180 : 0;
  return s("text", { transform: `rotate(${turn.toFixed(2)}) translate(${at.toFixed(1)},0) rotate(${flip})`, class: `k-${key} centred`, dy: "0.35em" }, text);
}

// Type, then precision, then layer, from the middle outwards.
export function drawSunburst(model: EngineModel, size: number, pick: Pick): SVGSVGElement {
  const radius = size / 2 - 2;
  const rings = [0, radius * 0.3, radius * 0.62, radius * 0.8, radius];
  const root = partition<Part>().size([2 * Math.PI, 1])(layout(model, "precision"));
  const shape = arc<HierarchyRectangularNode<Part>>().startAngle((node) => node.x0).endAngle((node) => node.x1)
    .innerRadius((node) => rings[node.depth]!).outerRadius((node) => rings[node.depth + 1]! - 1);
  const cells = root.descendants().filter((node) => node.depth > 0 && (node.x1 - node.x0) * radius > 0.6).map((node) => {
    const group = s("g", { class: "cell", "data-tip": tip(model, node.data, node.ancestors().reverse().slice(1).map((one) => one.data.name).join(" / ")), click: () => pick(node.data.rows) },
      s("path", { d: shape(node) ?? "", class: `k-${node.data.key}` }));
    const label = node.depth <= 2 ? sunburstLabel(node, rings[node.depth]!, rings[node.depth + 1]!) : null;
    if (label) group.append(label);
    return group;
  });
  return s("svg", { class: "sunburst", width: size, height: size, viewBox: `${-size / 2} ${-size / 2} ${size} ${size}`, role: "img", "aria-label": "Sunburst of time by type, precision and layer" },
    cells, s("text", { class: "centred strong", dy: "-0.1em" }, `${numbers.milliseconds(model.sumMs)} ms`), s("text", { class: "centred dim", dy: "1.2em" }, "sum of layers"));
}

export interface Slice { name: string; value: number; text: string; key: string; rows: readonly number[] }

export function drawDonut(slices: readonly Slice[], size: number, title: string, pick: Pick): SVGSVGElement {
  const total = slices.reduce((sum, slice) => sum + slice.value, 0) || 1;
  const shape = arc<{ from: number; to: number }>().startAngle((part) => part.from).endAngle((part) => part.to).innerRadius(size * 0.29).outerRadius(size * 0.48);
  let angle = 0;
  const cells = slices.map((slice) => {
    const part = { from: angle, to: angle + (2 * Math.PI * slice.value) / total };
    angle = part.to;
    const [x, y] = shape.centroid(part);
    const share = (100 * slice.value) / total;
    return s("g", { class: "cell", "data-tip": `${slice.name}: ${slice.text}, ${numbers.percent(share)} %`, click: () => pick(slice.rows) },
      s("path", { d: shape(part) ?? "", class: `k-${slice.key}` }),
      share >= 7 && s("text", { x: x.toFixed(1), y: y.toFixed(1), dy: "0.35em", class: `k-${slice.key} centred` }, `${share.toFixed(0)} %`));
  });
  return s("svg", { class: "donut", width: size, height: size, viewBox: `${-size / 2} ${-size / 2} ${size} ${size}`, role: "img", "aria-label": title }, cells,
    s("text", { class: "centred", dy: "0.35em" }, title));
}

