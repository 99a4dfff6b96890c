// SPDX-License-Identifier: Apache-2.0
//
// Which layers the table shows. A filter is text plus ticked values per facet. Text is a list of words that must all
// hold: a plain word is looked for in name, type, tactic and ONNX nodes; `field:word` looks in one field; `time>0.1`
// compares a number; a leading '-' turns a word round; "quotes" keep blanks together.
import { isOverhead, share, type EngineModel } from "./engine_model";
import type { Layer } from "./schema";

export const kFacets = ["type", "precision", "verdict", "kind"] as const;
export type Facet = (typeof kFacets)[number];
export type FacetChoice = Readonly<Record<Facet, ReadonlySet<string>>>;

export const kNoFacets: FacetChoice = { type: new Set(), precision: new Set(), verdict: new Set(), kind: new Set() };

export function facetValue(layer: Layer, facet: Facet): string {
  return (facet === "verdict" ? layer.roofline.verdict : layer[facet]) || "unknown";
}

type Test = (index: number) => boolean;

const kTextFields: Record<string, (layer: Layer) => string> = {
  name: (layer) => layer.name,
  type: (layer) => layer.type,
  runner: (layer) => layer.runner,
  tactic: (layer) => layer.tactic,
  precision: (layer) => `${layer.precision} ${layer.input_precision} ${layer.output_precision}`,
  verdict: (layer) => layer.roofline.verdict,
  kind: (layer) => (isOverhead(layer) ? `${layer.kind} overhead` : layer.kind),
  onnx: (layer) => layer.origins.map((origin) => `${origin.name} ${origin.op_type}`).join("\n"),
};

const kNumberFields: Record<string, (model: EngineModel, index: number) => number> = {
  time: (model, index) => model.timeMs[index]!,
  share: (model, index) => share(model, index),
  flops: (model, index) => model.layers[index]!.flops ?? NaN,
  roof: (model, index) => model.layers[index]!.roofline.percent_of_roof ?? NaN,
  nodes: (model, index) => model.layers[index]!.origins.length,
  error: (model, index) => model.layers[index]!.error?.local ?? NaN,
};

function tensorNames(model: EngineModel, layer: Layer): string {
  return [...layer.inputs, ...layer.outputs].map((use) => model.engine.tensors[use.tensor]!.name).join("\n");
}

function wordTest(model: EngineModel, word: string): Test {
  const compare = /^(\w+)(>=|<=|>|<)(-?[\d.]+(?:e-?\d+)?)$/i.exec(word);
  const value = compare ? kNumberFields[compare[1]!.toLowerCase()] : undefined;
  if (compare && value) {
    const limit = Number(compare[3]);
    switch (compare[2]) {
      case ">": return (index) => value(model, index) > limit;
      case "<": return (index) => value(model, index) < limit;
      case ">=": return (index) => value(model, index) >= limit;
      default: return (index) => value(model, index) <= limit;
    }
  }
  const colon = word.indexOf(":");
  const field = colon > 0 ? word.slice(0, colon).toLowerCase() : "";
  const needle = word.slice(colon + 1).toLowerCase();
  if (field === "tensor") return (index) => tensorNames(model, model.layers[index]!).toLowerCase().includes(needle);
  const read = kTextFields[field];
  if (read) return (index) => read(model.layers[index]!).toLowerCase().includes(needle);
  const whole = word.toLowerCase();
  return (index) => model.searchText[index]!.includes(whole);
}

export function splitWords(text: string): string[] {
  return [...text.matchAll(/(-?(?:\w+:)?)"([^"]*)"?|\S+/g)]
    .map((match) => (match[2] === undefined ? match[0] : match[1]! + match[2]))
    .filter((word) => word !== "" && word !== "-");
}

// Indices in execution order.
export function filterLayers(model: EngineModel, text: string, facets: FacetChoice): number[] {
  const tests = splitWords(text).map((word): Test => {
    if (!word.startsWith("-") || word.length === 1) return wordTest(model, word);
    const test = wordTest(model, word.slice(1));
    return (index) => !test(index);
  });
  const chosen = kFacets.filter((facet) => facets[facet].size > 0);
  const result: number[] = [];
  for (let index = 0; index < model.layers.length; index += 1) {
    const layer = model.layers[index]!;
    if (chosen.every((facet) => facets[facet].has(facetValue(layer, facet))) && tests.every((test) => test(index))) {
      result.push(index);
    }
  }
  return result;
}

// Values of a facet with the number of layers, most frequent first.
export function facetCounts(model: EngineModel, facet: Facet): [value: string, count: number][] {
  const counts = new Map<string, number>();
  for (const layer of model.layers) {
    const value = facetValue(layer, facet);
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}
