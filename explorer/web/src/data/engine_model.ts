// SPDX-License-Identifier: Apache-2.0
//
// One engine with what every view needs at hand: times as plain arrays, names folded to lower case for searching,
// neighbours in the graph, findings by layer. Derived once: the times when the page opens, the rest when a view first asks,
// so that nothing stands before the first picture that it does not show.
import { colour, heatKey, precisionKey, typeFamily, verdictKey, type Colour } from "./palette";
import type { Engine, Finding, Layer } from "./schema";

export type ColourMode = "type" | "precision" | "time" | "verdict";

export interface EngineModel {
  readonly engine: Engine;
  readonly layers: readonly Layer[];
  readonly timeMs: Float64Array; // NaN: not timed
  readonly sumMs: number;        // as the file states it
  readonly maxMs: number;
  readonly searchText: readonly string[];
  readonly shortNames: readonly string[];
  readonly previous: readonly (readonly number[])[];
  readonly next: readonly (readonly number[])[];
  readonly findingsOf: ReadonlyMap<number, Finding[]>;
  readonly indexOfName: ReadonlyMap<string, number>;
}

// Profiles give a layer that runs no code the least that a clock tells, as scripts divide by their times.
const kNoTimeMs = 1e-6;

// Moves or converts data without computing. A view of memory (a reshape that became a change of names) is a copy by kind
// but takes no time, and what takes none is no overhead.
export function isOverhead(layer: Layer): boolean {
  return (layer.kind === "reformat" || layer.kind === "copy" || layer.kind === "cast") && !(layer.time && layer.time.average_ms <= kNoTimeMs);
}

export function familyOf(layer: Layer): [key: string, label: string] {
  return typeFamily(layer.type, isOverhead(layer) ? layer.kind : "compute");
}

// Of layers of one type: that of the slowest, as some reshapes move data and others are views.
export function groupFamily(model: EngineModel, rows: readonly number[]): string {
  const slowest = rows.reduce((a, b) => ((model.timeMs[b] || 0) > (model.timeMs[a] || 0) ? b : a), rows[0] ?? 0);
  return familyOf(model.layers[slowest]!)[0];
}

// One node's path without its middle: "layer.0/…/self/query/MatMul +2". The innermost numbered part stays, as it alone
// tells repeated blocks apart. Layers bring theirs along (`label`), made by the same rule (explorer/core/text_parts.cpp).
export function shortPath(name: string): string {
  const copy = /^Reformatting CopyNode for (Input|Output) Tensor (\d+) (?:to|of|from) (.*)$/s.exec(name);
  const parts = (copy ? copy[3]! : name).split(" + ");
  const before = copy ? (copy[1] === "Input" ? "reformat for " : "reformat of ") : "";
  return before + lastSegments(tellingPart(parts)) + (parts.length > 1 ? ` +${parts.length - 1}` : "");
}

// The first that is a path to a node: quantised models of TensorFlow begin with tensors ("a/ReadVariableOp:0") and nodes
// that a converter made ("QuantLinearNode__638"). Without one, the first.
function tellingPart(parts: readonly string[]): string {
  return parts.find((part) => part.includes("/") && !/:\d+$/.test(part)) ?? parts[0]!;
}

function lastSegments(path: string): string {
  const segments = path.split("/").filter((segment) => segment !== "");
  if (segments.length <= 3) return segments.join("/");
  const tail = segments.slice(-3);
  const numbered = segments.slice(0, -3).map((segment) => /\d$/.test(segment)).lastIndexOf(true);
  if (numbered < 0) return tail.join("/");
  return `${segments[numbered]}/${numbered < segments.length - 4 ? "…/" : ""}${tail.join("/")}`;
}

function neighbours(engine: Engine): [number[][], number[][]] {
  const previous: Set<number>[] = engine.layers.map(() => new Set<number>());
  const next: Set<number>[] = engine.layers.map(() => new Set<number>());
  for (const edge of engine.edges) {
    if (edge.from === null || edge.to === null || edge.from === edge.to) continue;
    previous[edge.to]!.add(edge.from);
    next[edge.from]!.add(edge.to);
  }
  return [previous.map((set) => [...set]), next.map((set) => [...set])];
}

function lazy<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

function findingsByLayer(engine: Engine): Map<number, Finding[]> {
  const findingsOf = new Map<number, Finding[]>();
  for (const finding of engine.findings) {
    for (const index of finding.layers) {
      const found = findingsOf.get(index);
      if (found) found.push(finding);
      else findingsOf.set(index, [finding]);
    }
  }
  return findingsOf;
}

export function makeEngineModel(engine: Engine): EngineModel {
  const layers = engine.layers;
  const timeMs = Float64Array.from(layers, (layer) => layer.time?.average_ms ?? NaN);
  const sides = lazy(() => neighbours(engine));
  const findingsOf = lazy(() => findingsByLayer(engine));
  const searchText = lazy(() => layers.map((layer) =>
    [layer.name, layer.type, layer.runner, layer.tactic, ...layer.origins.map((origin) => `${origin.name} ${origin.op_type}`)]
      .join("\n").toLowerCase()));
  const shortNames = lazy(() => layers.map((layer) => layer.label ?? shortPath(layer.name)));
  const indexOfName = lazy(() => new Map(layers.map((layer, i) => [layer.name, i])));
  const sum = timeMs.reduce((total, time) => total + (Number.isNaN(time) ? 0 : time), 0);
  return {
    engine, layers, timeMs,
    sumMs: engine.statistics.layer_sum_ms ?? sum,
    maxMs: timeMs.reduce((most, time) => (time > most ? time : most), 0),
    get previous() { return sides()[0]; },
    get next() { return sides()[1]; },
    get findingsOf() { return findingsOf(); },
    get searchText() { return searchText(); },
    get shortNames() { return shortNames(); },
    get indexOfName() { return indexOfName(); },
  };
}

// A view is another name for memory: it runs no code, and in a table of times it only stands in the way.
export function isIdleView(layer: Layer): boolean {
  return layer.kind === "view" && !(layer.time && layer.time.average_ms > kNoTimeMs);
}

// Files before 1.3 do not say.
export function layersUsable(engine: Engine): boolean {
  return engine.measurement?.usable ?? true;
}

// The milliseconds that stand for the engine: the median, which slow runs of a busy machine hardly move.
export function typicalMs(engine: Engine): number | null {
  return engine.statistics.compute?.median_ms ?? engine.statistics.engine_latency_ms;
}

export function share(model: EngineModel, index: number): number {
  const time = model.timeMs[index]!;
  return model.sumMs > 0 && !Number.isNaN(time) ? (100 * time) / model.sumMs : NaN;
}

export function layerColour(model: EngineModel, index: number, mode: ColourMode): Colour {
  const layer = model.layers[index]!;
  if (mode === "precision") return colour(precisionKey(layer.precision));
  if (mode === "verdict") return colour(verdictKey(layer.roofline.verdict));
  if (mode === "time") {
    const time = model.timeMs[index]!;
    return colour(heatKey(Number.isNaN(time) || model.maxMs === 0 ? 0 : time / model.maxMs));
  }
  return colour(familyOf(layer)[0]);
}

// What the colours of a mode mean in this engine: only what occurs.
export function legend(model: EngineModel, mode: ColourMode): { label: string; colour: Colour }[] {
  if (mode === "time") {
    return [0, 1, 2, 3, 4].map((step) => ({
      label: step === 0 ? `≤ ${(100 * (1 / 5) ** 2).toFixed(0)} % of the slowest` : `> ${(100 * (step / 5) ** 2).toFixed(0)} %`,
      colour: colour(`heat${step}`),
    }));
  }
  const entries = new Map<string, { key: string; timeMs: number }>();
  model.layers.forEach((layer, i) => {
    const [key, label] = mode === "type" ? familyOf(layer)
      : mode === "precision" ? [precisionKey(layer.precision), layer.precision || "unknown"]
        : [verdictKey(layer.roofline.verdict), layer.roofline.verdict];
    const entry = entries.get(label) ?? { key, timeMs: 0 };
    entry.timeMs += Number.isNaN(model.timeMs[i]!) ? 0 : model.timeMs[i]!;
    entries.set(label, entry);
  });
  return [...entries].sort((a, b) => b[1].timeMs - a[1].timeMs).map(([label, { key }]) => ({ label, colour: colour(key) }));
}
