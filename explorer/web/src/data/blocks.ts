// SPDX-License-Identifier: Apache-2.0
//
// Folding of the graph. ONNX exporters name nodes by module path ("/encoder/layer.3/attention/query/MatMul"); a block
// is the part up to the first segment that carries a number, which is what models repeat. A layer belongs to the block
// of its first ONNX node; a reformat to that of the layer that it serves. Where names have no such path there are no
// blocks.
import type { EngineModel } from "./engine_model";
import type { Layer } from "./schema";

const kNumbered = /(?:^|[._[])\d+\]?$/;

// The module path of its first ONNX node, or of the layer that a reformat serves.
export function pathOf(layer: Layer): string {
  const serves = /^Reformatting CopyNode for (?:Input|Output) Tensor \d+ (?:to|of|from) (.*)$/s.exec(layer.name)?.[1];
  return layer.origins[0]?.name ?? (serves ?? layer.name).split(" + ")[0]!;
}

export function blockOf(layer: Layer): string {
  const segments = pathOf(layer).split("/");
  const numbered = segments.findIndex((segment) => kNumbered.test(segment));
  return numbered <= 0 || numbered + 1 >= segments.length ? "" : segments.slice(0, numbered + 1).join("/");
}

// The block's own name in at most as many pixels as `fits` allows: its last segment, or only its number.
export function blockLabel(block: string, fits: (text: string) => boolean): string {
  const own = block.split("/").pop()!;
  return [own, /\d+$/.exec(own)?.[0] ?? ""].find((name) => name !== "" && fits(name)) ?? "";
}

export interface GraphNode {
  id: string;           // "l12", "b/encoder/layer.3", or "i3" and "o4" for an input or output of the network
  layers: number[];     // one for a layer, more for a folded block, none for an input or output
  block: string;        // the block it belongs to or stands for, '' for none
  folded: boolean;
  tensor?: number;      // of an input or output
}
export interface GraphEdge { from: string; to: string; tensors: number[] }
export interface DisplayGraph { nodes: GraphNode[]; edges: GraphEdge[]; nodeOf: Map<number, string> }

export function blocks(model: EngineModel): Map<string, number[]> {
  const result = new Map<string, number[]>();
  model.layers.forEach((layer, i) => {
    const block = blockOf(layer);
    if (block === "") return;
    const members = result.get(block);
    if (members) members.push(i);
    else result.set(block, [i]);
  });
  for (const [block, members] of result) if (members.length < 3) result.delete(block);
  return result;
}

// The graph with every block outside `open` drawn as one node, limited to `visible` layers (null: all).
export function foldGraph(model: EngineModel, folded: ReadonlyMap<string, number[]>, open: ReadonlySet<string>,
                          visible: ReadonlySet<number> | null): DisplayGraph {
  const blockOfLayer = new Map<number, string>();
  for (const [block, members] of folded) for (const member of members) blockOfLayer.set(member, block);
  const nodes = new Map<string, GraphNode>();
  const nodeOf = new Map<number, string>();
  model.layers.forEach((_, i) => {
    if (visible && !visible.has(i)) return;
    const block = blockOfLayer.get(i) ?? "";
    const id = block !== "" && !open.has(block) ? `b${block}` : `l${i}`;
    nodeOf.set(i, id);
    const node = nodes.get(id);
    if (node) node.layers.push(i);
    else nodes.set(id, { id, layers: [i], block, folded: id.startsWith("b") });
  });
  // An end of an edge outside all layers is an input, an output, or a constant, which is not drawn.
  const outside = (tensor: number, side: "input" | "output"): string | undefined => {
    if (model.engine.tensors[tensor]!.role !== side) return undefined;
    const id = `${side[0]}${tensor}`;
    nodes.set(id, { id, layers: [], block: "", folded: false, tensor });
    return id;
  };
  const edges = new Map<string, GraphEdge>();
  for (const { from, to, tensor } of model.engine.edges) {
    if ((from !== null && !nodeOf.has(from)) || (to !== null && !nodeOf.has(to))) continue;
    const [a, b] = [from === null ? outside(tensor, "input") : nodeOf.get(from), to === null ? outside(tensor, "output") : nodeOf.get(to)];
    if (a === undefined || b === undefined || a === b) continue;
    const key = `${a}\n${b}`;
    const edge = edges.get(key);
    if (!edge) edges.set(key, { from: a, to: b, tensors: [tensor] });
    else if (!edge.tensors.includes(tensor)) edge.tensors.push(tensor);
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()], nodeOf };
}

// For files that name no tensors: each node leads to the one that runs next.
export function executionOrder(graph: DisplayGraph): GraphEdge[] {
  const nodes = graph.nodes.filter((node) => node.layers.length > 0);
  return nodes.slice(1).map((node, i) => ({ from: nodes[i]!.id, to: node.id, tensors: [] }));
}

// Layers within `radius` steps of one layer, both ways.
export function neighbourhood(model: EngineModel, centre: number, radius: number): Set<number> {
  const found = new Set([centre]);
  let frontier = [centre];
  for (let step = 0; step < radius; step += 1) {
    frontier = frontier.flatMap((layer) => [...model.previous[layer]!, ...model.next[layer]!]).filter((layer) => !found.has(layer));
    frontier.forEach((layer) => found.add(layer));
  }
  return found;
}

// Edges worth drawing. A mask or a position table feeds every block, and its lines across the whole picture hide the rest
// and pull the layout apart: of a node with more than `most` readers the line to the first is kept, and those that are
// some node's only way in; the others become marks at their readers.
export function splitEdges(graph: DisplayGraph, most: number): { drawn: GraphEdge[]; marks: GraphEdge[] } {
  const readers = new Map<string, GraphEdge[]>();
  const ways = new Map<string, number>();
  for (const edge of graph.edges) {
    const list = readers.get(edge.from);
    if (list) list.push(edge);
    else readers.set(edge.from, [edge]);
    ways.set(edge.to, (ways.get(edge.to) ?? 0) + 1);
  }
  const marks = new Set<GraphEdge>();
  for (const list of readers.values()) {
    if (list.length <= most) continue;
    for (const edge of list.slice(1)) {
      const left = ways.get(edge.to)!;
      if (left < 2) continue;
      ways.set(edge.to, left - 1);
      marks.add(edge);
    }
  }
  return { drawn: graph.edges.filter((edge) => !marks.has(edge)), marks: [...marks] };
}

// The largest neighbourhood of at most `most` layers.
export function neighbourhoodUpTo(model: EngineModel, centre: number, most: number): Set<number> {
  let found = new Set([centre]);
  for (let radius = 1; ; radius += 1) {
    const larger = neighbourhood(model, centre, radius);
    if (larger.size > most || larger.size === found.size) return found;
    found = larger;
  }
}
