// SPDX-License-Identifier: Apache-2.0
//
// The model's modules by time: as a flame, whose rows go inwards from the whole engine to its layers in execution order, and
// as a treemap. A click selects what a box holds.
import { hierarchy, partition, treemap, treemapSquarify, type HierarchyRectangularNode } from "d3-hierarchy";
import { familyOf, type EngineModel } from "../data/engine_model";
import type { Module } from "../data/modules";
import * as numbers from "../data/numbers";
import { s } from "../ui/dom";
import { fitText } from "../ui/text_width";

type Pick = (rows: readonly number[]) => void;
type Box = HierarchyRectangularNode<Module>;

const kRow = 22;
const kLeastWidth = 0.6; // pixels

function layout(tree: Module) {
  return hierarchy(tree, (module) => module.children).sum((module) => (module.layer === null ? 0 : module.timeMs));
}

function keyOf(model: EngineModel, module: Module): string {
  return module.layer === null ? "module" : familyOf(model.layers[module.layer]!)[0];
}

function tip(model: EngineModel, module: Module): string {
  const layers = module.layer === null ? `, ${module.rows.length} layers` : "";
  return `${module.path || module.name}\n${numbers.milliseconds(module.timeMs)} ms, ${numbers.percent((100 * module.timeMs) / (model.sumMs || NaN), 2)} %${layers}`;
}

function box(model: EngineModel, node: Box, text: string, dy: number, pick: Pick): SVGGElement {
  const key = keyOf(model, node.data);
  const group = s("g", { class: "cell", "data-tip": tip(model, node.data), click: () => pick(node.data.rows) },
    s("rect", { x: node.x0.toFixed(1), y: node.y0.toFixed(1), width: (node.x1 - node.x0).toFixed(1), height: (node.y1 - node.y0).toFixed(1), class: key === "module" ? "cell-group" : `k-${key}` }));
  if (text !== "") group.append(s("text", { x: (node.x0 + 4).toFixed(1), y: (node.y0 + dy).toFixed(1), class: key === "module" ? "" : `k-${key}` }, text));
  return group;
}

export function drawFlame(model: EngineModel, tree: Module, width: number, pick: Pick): SVGSVGElement {
  const laid = layout(tree);
  const height = (laid.height + 1) * kRow;
  // Layers hang right below their module, not all in the last row.
  const root = partition<Module>().size([width, height])(laid);
  const cells = root.descendants().filter((node) => node.x1 - node.x0 > kLeastWidth).map((node) => {
    const share = numbers.percent((100 * node.data.timeMs) / (model.sumMs || NaN));
    const room = node.x1 - node.x0 - 8;
    const named = `${node.data.name}  ${share} %`;
    const text = room < 22 ? "" : fitText(named, room) === named ? named : fitText(node.data.name, room, { least: 4 });
    return box(model, { ...node, y1: node.y1 - 1, x1: Math.max(node.x0 + 0.4, node.x1 - 0.6) } as Box, text, 15, pick);
  });
  return s("svg", { class: "flame", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Flame of time by module" }, cells);
}

export function drawModuleTreemap(model: EngineModel, tree: Module, width: number, height: number, pick: Pick): SVGSVGElement {
  const root = treemap<Module>().size([width, height]).tile(treemapSquarify).paddingInner(1).paddingOuter(1).paddingTop((node) => (node.children && node.depth > 0 ? 16 : 1))(
    layout(tree).sort((a, b) => (b.value ?? 0) - (a.value ?? 0)));
  const cells = root.descendants().filter((node) => node.depth > 0 && node.x1 - node.x0 > kLeastWidth && node.y1 - node.y0 > kLeastWidth).map((node) => {
    const text = node.y1 - node.y0 < 14 ? "" : fitText(node.data.name, node.x1 - node.x0 - 7, { least: 4 });
    return box(model, node, text, 12, pick);
  });
  return s("svg", { class: "treemap modules", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Treemap of time by module" }, cells);
}
