// SPDX-License-Identifier: Apache-2.0
//
// The model beside an engine, with what its view asks for: nodes of a layer, producers and readers of a tensor, the bytes of
// weights that a node reads. Derived when first asked for.
import type { EngineModel } from "./engine_model";
import type { OnnxModel } from "./schema";

const kFates: Record<string, string> = {
  layer: "a layer of its own", fused: "fused", several: "several layers", expanded: "expanded", view: "a view of memory", layout: "an order of access", no_op: "nothing: no effect",
  constant: "a constant", shape: "shape arithmetic", types: "a type of its layers", unused: "nothing: unused", unknown: "not known",
};

export function fateTitle(fate: string): string {
  return kFates[fate] ?? fate;
}

export interface ModelData {
  onnx: OnnxModel;
  timeMs: Float64Array;    // of each node's layers, NaN: not timed
  weights: Float64Array;   // bytes of initializers that each node reads
  initializers: number[];
  initializerBytes: number;
  nodesOf: (layer: number) => readonly number[];
  producer: (tensor: number) => readonly number[];
  readers: (tensor: number) => readonly number[];
  shapeText: (tensor: number) => string;
  outputShape: (node: number) => string;
  outputType: (node: number) => string;
  searchText: (node: number) => string;
  weightsOf: (nodes: readonly number[]) => number; // each initializer once
}

const kMade = new WeakMap<EngineModel, ModelData>();

export function modelOf(model: EngineModel): ModelData | null {
  const { onnx } = model.engine;
  if (!onnx) return null;
  const made = kMade.get(model) ?? make(model, onnx);
  kMade.set(model, made);
  return made;
}

function listsFor(count: number): number[][] {
  return Array.from({ length: count }, () => []);
}

function make(model: EngineModel, onnx: OnnxModel): ModelData {
  const { nodes, tensors } = onnx;
  const nodesOf = listsFor(model.layers.length);
  const producers = listsFor(tensors.length);
  const readers = listsFor(tensors.length);
  nodes.forEach((node, i) => {
    node.layers.forEach((layer) => nodesOf[layer]!.push(i));
    node.outputs.forEach((tensor) => { if (tensor >= 0) producers[tensor]!.push(i); });
    node.inputs.forEach((tensor) => { if (tensor >= 0 && !readers[tensor]!.includes(i)) readers[tensor]!.push(i); });
  });
  const initializers = tensors.flatMap((tensor, i) => (tensor.role === "initializer" ? [i] : []));
  const weightsOf = (some: readonly number[]) => [...new Set(some.flatMap((node) => nodes[node]!.inputs))]
    .reduce((sum, tensor) => sum + (tensor >= 0 && tensors[tensor]!.role === "initializer" ? tensors[tensor]!.bytes ?? 0 : 0), 0);
  const shapeText = (tensor: number) => {
    const { shape } = tensors[tensor]!;
    return shape === null ? "–" : shape.length === 0 ? "scalar" : shape.map((dim) => (dim === "" ? "?" : String(dim))).join("×");
  };
  const firstOutput = (node: number) => nodes[node]!.outputs.find((tensor) => tensor >= 0);
  const texts = new Map<number, string>();
  return {
    onnx, initializers, weightsOf, shapeText,
    initializerBytes: initializers.reduce((sum, tensor) => sum + (tensors[tensor]!.bytes ?? 0), 0),
    timeMs: Float64Array.from(nodes, (node) => (node.layers.length === 0 ? NaN : node.layers.reduce((sum, layer) => sum + model.timeMs[layer]!, 0))),
    weights: Float64Array.from(nodes, (_, i) => weightsOf([i])),
    nodesOf: (layer) => nodesOf[layer]!,
    producer: (tensor) => producers[tensor]!,
    readers: (tensor) => readers[tensor]!,
    outputShape: (node) => { const tensor = firstOutput(node); return tensor === undefined ? "–" : shapeText(tensor); },
    outputType: (node) => { const tensor = firstOutput(node); return tensor === undefined ? "" : tensors[tensor]!.type; },
    searchText: (node) => {
      let text = texts.get(node);
      if (text === undefined) {
        const one = nodes[node]!;
        text = [one.name, one.op_type, one.fate, one.why, ...[...one.inputs, ...one.outputs].map((tensor) => (tensor < 0 ? "" : tensors[tensor]!.name))].join("\n").toLowerCase();
        texts.set(node, text);
      }
      return text;
    },
  };
}

// "12: layer.0/…/MatMul +2", or why no layer runs the node.
export function layersText(model: EngineModel, { onnx }: ModelData, node: number): string {
  const { layers, why } = onnx.nodes[node]!;
  if (layers.length === 0) return why;
  const first = `${layers[0]!}: ${model.shortNames[layers[0]!]!}`;
  return layers.length === 1 ? first : `${first} and ${layers.length - 1} more`;
}
