// SPDX-License-Identifier: Apache-2.0
//
// The model's modules as a tree, with the layers that run them. Exporters name nodes by module path
// ("/encoder/layer.3/attention/query/MatMul"); a layer belongs to the module of its first ONNX node. A module that only holds
// one other is not worth a level of its own.
import { exactSum } from "./aggregate";
import { pathOf } from "./blocks";
import type { EngineModel } from "./engine_model";

export interface Module { name: string; path: string; rows: number[]; timeMs: number; layer: number | null; children: Module[] }

interface Draft { name: string; path: string; children: Map<string, Draft>; rows: number[] }

function draft(name: string, path: string): Draft {
  return { name, path, children: new Map(), rows: [] };
}

// Below its module a layer needs no more than its own part of the path.
function leaf(model: EngineModel, row: number, base: string): Module {
  const layer = model.layers[row]!;
  const own = pathOf(layer).slice(base.length).split("/").filter((segment) => segment !== "").slice(-2).join("/");
  const more = / \+\d+$/.exec(model.shortNames[row]!)?.[0] ?? "";
  const before = layer.origins.length === 0 && layer.name.startsWith("Reformatting") ? "reformat for " : "";
  return { name: before + (own === "" ? model.shortNames[row]! : own + more), path: layer.name, rows: [row], timeMs: model.timeMs[row] || 0, layer: row, children: [] };
}

function finished(model: EngineModel, from: Draft, base: string): Module {
  let node = from;
  let name = from.name;
  // "layer1" around "layer1.0" and "layer1.1" stays; a chain of only children becomes one.
  while (node.rows.length === 0 && node.children.size === 1) {
    node = [...node.children.values()][0]!;
    name = name === "" ? node.name : `${name}/${node.name}`;
  }
  // A module that is one layer is that layer.
  if (node.children.size === 0 && node.rows.length === 1) return leaf(model, node.rows[0]!, base);
  const children = [...[...node.children.values()].map((child) => finished(model, child, node.path)), ...node.rows.map((row) => leaf(model, row, node.path))]
    .filter((child) => child.timeMs > 0).sort((a, b) => Math.min(...a.rows) - Math.min(...b.rows));
  return { name, path: node.path, rows: children.flatMap((child) => child.rows), timeMs: exactSum(children.map((child) => child.timeMs)), layer: null, children };
}

// The root stands for the whole engine. Null where names have no paths.
export function moduleTree(model: EngineModel): Module | null {
  const root = draft("", "");
  model.layers.forEach((layer, row) => {
    const segments = pathOf(layer).split("/").filter((segment) => segment !== "").slice(0, -1);
    let at = root;
    for (const segment of segments) {
      const next = at.children.get(segment) ?? draft(segment, `${at.path}/${segment}`);
      at.children.set(segment, next);
      at = next;
    }
    at.rows.push(row);
  });
  if (root.children.size === 0) return null;
  const tree = finished(model, root, "");
  return { ...tree, name: model.engine.name };
}
