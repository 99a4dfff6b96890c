// SPDX-License-Identifier: Apache-2.0
//
// Places of the graph's nodes: top to bottom in layers, by dagre. Its exact ranking is slow beyond a thousand nodes, so
// the cheap one (longest path) is used; on the long thin graphs of networks it looks the same.
import dagre from "@dagrejs/dagre";
import type { DisplayGraph, GraphEdge } from "./blocks";

export interface Box { x: number; y: number; width: number; height: number } // centre and size
export interface Placed {
  boxes: Map<string, Box>;
  lines: { from: string; to: string; points: { x: number; y: number }[] }[];
  width: number;
  height: number;
}

export function layoutGraph(graph: DisplayGraph, edges: readonly GraphEdge[], size: (id: string) => { width: number; height: number }): Placed {
  const g = new dagre.graphlib.Graph();
  g.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 26, edgesep: 10, marginx: 16, marginy: 16, ranker: graph.nodes.length > 400 ? "longest-path" : "network-simplex" });
  g.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) g.setNode(node.id, { ...size(node.id) });
  for (const edge of edges) g.setEdge(edge.from, edge.to, {});
  dagre.layout(g);
  const boxes = new Map<string, Box>();
  for (const id of g.nodes()) boxes.set(id, g.node(id) as Box);
  const lines = g.edges().map((edge) => ({ from: edge.v, to: edge.w, points: (g.edge(edge) as { points: { x: number; y: number }[] }).points }));
  const { width = 0, height = 0 } = g.graph() as { width?: number; height?: number };
  return { boxes, lines, width, height };
}
