// SPDX-License-Identifier: Apache-2.0
//
// From the text inside the page to data that the views can trust. The file may have been cut by a mail program, edited
// by hand or written by a newer version, so everything that the views index with is checked here, once, and what is
// wrong is said with its place in the file. Checked is what the page would stumble over, not the whole schema: the
// writer's own tests do that. A place is a function that makes its text: of hundreds of thousands one is needed, and only when
// something is wrong there.
import type { Analysis, Engine } from "./schema";

// What is wrong with the file and where; shown to the user as it is.
export class DataError extends Error {}

type Fields = Record<string, unknown>;
type Place = () => string;

function fail(path: Place, problem: string): never {
  throw new DataError(`${path() || "analysis"}: ${problem}`);
}

function object(value: unknown, path: Place): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) fail(path, "an object was expected");
  return value as Fields;
}

function array(value: unknown, path: Place): unknown[] {
  if (!Array.isArray(value)) fail(path, "a list was expected");
  return value;
}

function fieldOf(parent: Fields, key: string, path: Place): unknown {
  if (!(key in parent)) fail(path, `the field "${key}" is missing`);
  return parent[key];
}

function list(parent: Fields, key: string, path: Place): unknown[] {
  return array(fieldOf(parent, key, path), () => `${path()}.${key}`);
}

function text(parent: Fields, key: string, path: Place): string {
  const value = fieldOf(parent, key, path);
  if (typeof value !== "string") fail(() => `${path()}.${key}`, "text was expected");
  return value;
}

function number(value: unknown, path: Place): number {
  if (typeof value !== "number" || !Number.isFinite(value)) fail(path, "a number was expected");
  return value;
}

function indices(values: unknown[], limit: number, path: Place): void {
  values.forEach((value, i) => {
    if (Number.isInteger(value) && (value as number) >= 0 && (value as number) < limit) return;
    const index = number(value, () => `${path()}[${i}]`);
    fail(() => `${path()}[${i}]`, `${index} is not the index of one of ${limit} entries`);
  });
}

function optionalIndex(value: unknown, limit: number, path: Place): void {
  if (value !== null) indices([value], limit, path);
}

function checkLayer(value: unknown, position: number, tensors: number, path: Place): void {
  const layer = object(value, path);
  if (number(fieldOf(layer, "index", path), () => `${path()}.index`) !== position) fail(() => `${path()}.index`, `${position} was expected`);
  for (const key of ["name", "type", "runner", "tactic", "tactic_id", "precision", "input_precision", "output_precision", "kind"]) {
    text(layer, key, path);
  }
  object(fieldOf(layer, "roofline", path), () => `${path()}.roofline`);
  object(fieldOf(layer, "attributes", path), () => `${path()}.attributes`);
  number(fieldOf(layer, "stream", path), () => `${path()}.stream`);
  list(layer, "origins", path).forEach((origin, i) => text(object(origin, () => `${path()}.origins[${i}]`), "name", () => `${path()}.origins[${i}]`));
  for (const side of ["inputs", "outputs"]) {
    list(layer, side, path).forEach((use, i) => {
      const where: Place = () => `${path()}.${side}[${i}]`;
      indices([fieldOf(object(use, where), "tensor", where)], tensors, () => `${where()}.tensor`);
      list(use as Fields, "shape", where);
    });
  }
  if (layer.tuning) { // files before 1.3 have none
    const tuning = object(layer.tuning, () => `${path()}.tuning`);
    for (const key of ["timed", "refused"]) {
      list(tuning, key, () => `${path()}.tuning`).forEach((one, i) => text(object(one, () => `${path()}.tuning.${key}[${i}]`), "name", () => `${path()}.tuning.${key}[${i}]`));
    }
  }
  const time = fieldOf(layer, "time", path);
  if (time !== null) {
    const fields = object(time, () => `${path()}.time`);
    number(fieldOf(fields, "average_ms", () => `${path()}.time`), () => `${path()}.time.average_ms`);
    number(fieldOf(fields, "start_ms", () => `${path()}.time`), () => `${path()}.time.start_ms`);
  }
}

function checkEngine(value: unknown, path: Place): void {
  const engine = object(value, path);
  text(engine, "name", path);
  const layers = list(engine, "layers", path);
  const tensors = list(engine, "tensors", path);
  layers.forEach((layer, i) => checkLayer(layer, i, tensors.length, () => `${path()}.layers[${i}]`));
  tensors.forEach((value, i) => {
    const where: Place = () => `${path()}.tensors[${i}]`;
    const tensor = object(value, where);
    text(tensor, "name", where);
    list(tensor, "shape", where);
    indices(list(tensor, "producers", where), layers.length, () => `${where()}.producers`);
    indices(list(tensor, "consumers", where), layers.length, () => `${where()}.consumers`);
    optionalIndex(fieldOf(tensor, "alias_of", where), tensors.length, () => `${where()}.alias_of`);
  });
  list(engine, "edges", path).forEach((value, i) => {
    const where: Place = () => `${path()}.edges[${i}]`;
    const edge = object(value, where);
    optionalIndex(fieldOf(edge, "from", where), layers.length, () => `${where()}.from`);
    optionalIndex(fieldOf(edge, "to", where), layers.length, () => `${where()}.to`);
    indices([fieldOf(edge, "tensor", where)], tensors.length, () => `${where()}.tensor`);
  });
  const memory = object(fieldOf(engine, "memory", path), () => `${path()}.memory`);
  list(memory, "steps", () => `${path()}.memory`);
  optionalIndex(fieldOf(memory, "peak_layer", () => `${path()}.memory`), layers.length, () => `${path()}.memory.peak_layer`);
  indices(list(memory, "peak_tensors", () => `${path()}.memory`), tensors.length, () => `${path()}.memory.peak_tensors`);
  list(engine, "findings", path).forEach((value, i) => {
    const where: Place = () => `${path()}.findings[${i}]`;
    indices(list(object(value, where), "layers", where), layers.length, () => `${where()}.layers`);
    list(value as Fields, "evidence", where);
  });
  const groups = object(fieldOf(engine, "groups", path), () => `${path()}.groups`);
  for (const key of ["by_type", "by_precision", "by_output_precision", "by_tactic", "by_stream"]) {
    list(groups, key, () => `${path()}.groups`).forEach((group, i) => {
      const where: Place = () => `${path()}.groups.${key}[${i}]`;
      indices(list(object(group, where), "layers", where), layers.length, () => `${where()}.layers`);
    });
  }
  for (const key of ["statistics", "peaks", "model", "device", "hardware_state", "build_options", "inference_options"]) {
    object(fieldOf(engine, key, path), () => `${path()}.${key}`);
  }
  for (const key of ["sources", "notes", "bindings"]) list(engine, key, path);
  for (const key of ["measurement", "context"]) if (key in engine) object(engine[key], () => `${path()}.${key}`); // not before 1.3
  if (engine.layer_runs) checkRuns(engine.layer_runs, layers.length, () => `${path()}.layer_runs`);
  if (engine.onnx) checkModel(engine.onnx, layers.length, () => `${path()}.onnx`); // files before 1.2 have none
}

function checkRuns(value: unknown, layers: number, path: Place): void {
  const runs = object(value, path);
  const numbers = list(runs, "numbers", path);
  const times = list(runs, "times_ms", path);
  if (times.length !== numbers.length) fail(() => `${path()}.times_ms`, `${numbers.length} runs were expected`);
  times.forEach((run, i) => {
    const where: Place = () => `${path()}.times_ms[${i}]`;
    if (array(run, where).length !== layers) fail(where, `${layers} times were expected`);
  });
}

function checkModel(value: unknown, layers: number, path: Place): void {
  const model = object(value, path);
  for (const key of ["file", "name", "producer", "note", "text"]) text(model, key, path);
  object(fieldOf(model, "fates", path), () => `${path()}.fates`);
  indices(list(model, "own_layers", path), layers, () => `${path()}.own_layers`);
  const tensors = list(model, "tensors", path);
  tensors.forEach((one, i) => text(object(one, () => `${path()}.tensors[${i}]`), "name", () => `${path()}.tensors[${i}]`));
  list(model, "nodes", path).forEach((one, i) => {
    const where: Place = () => `${path()}.nodes[${i}]`;
    const node = object(one, where);
    for (const key of ["name", "op_type", "fate", "why"]) text(node, key, where);
    object(fieldOf(node, "attributes", where), () => `${where()}.attributes`);
    indices(list(node, "layers", where), layers, () => `${where()}.layers`);
    for (const side of ["inputs", "outputs"]) indices(list(node, side, where).filter((tensor) => tensor !== -1), tensors.length, () => `${where()}.${side}`);
  });
}

function checkPair(value: unknown, engines: Engine[], path: Place): void {
  const pair = object(value, path);
  for (const key of ["baseline", "candidate"]) indices([fieldOf(pair, key, path)], engines.length, () => `${path()}.${key}`);
  const [baseline, candidate] = [engines[pair.baseline as number]!, engines[pair.candidate as number]!];
  const rows = list(pair, "rows", path);
  rows.forEach((row, i) => {
    const where: Place = () => `${path()}.rows[${i}]`;
    const fields = object(row, where);
    list(fields, "origins", where);
    indices(list(fields, "baseline_layers", where), baseline.layers.length, () => `${where()}.baseline_layers`);
    indices(list(fields, "candidate_layers", where), candidate.layers.length, () => `${where()}.candidate_layers`);
  });
  for (const key of ["waterfall", "waterfall_by_type"]) {
    list(pair, key, path).forEach((item, i) => {
      const where: Place = () => `${path()}.${key}[${i}]`;
      const fields = object(item, where);
      number(fieldOf(fields, "delta_ms", where), () => `${where()}.delta_ms`);
      indices(list(fields, "rows", where), rows.length, () => `${where()}.rows`);
    });
  }
  for (const key of ["fusions_lost", "fusions_new", "notes"]) list(pair, key, path);
  for (const key of ["precision_changes", "tactic_changes"]) indices(list(pair, key, path), rows.length, () => `${path()}.${key}`);
}

export function parseAnalysis(source: string): Analysis {
  if (source.trim() === "") throw new DataError("The page holds no data: it is the empty template.");
  let parsed: unknown;
  try {
    parsed = JSON.parse(source);
  } catch (error) {
    throw new DataError(`The data in this page is damaged (not JSON): ${(error as Error).message}`);
  }
  const root = object(parsed, () => "");
  if (root.schema !== "lathe-analysis") fail(() => "schema", `"lathe-analysis" was expected, found ${JSON.stringify(root.schema)}`);
  const version = text(root, "schema_version", () => "analysis");
  if (!/^1\./.test(version)) fail(() => "schema_version", `this page reads version 1, the data is version ${version}`);
  const engines = list(root, "engines", () => "analysis");
  if (engines.length === 0) fail(() => "engines", "at least one engine was expected");
  engines.forEach((engine, i) => checkEngine(engine, () => `engines[${i}]`));
  const comparison = fieldOf(root, "comparison", () => "analysis");
  if (comparison !== null) {
    const fields = object(comparison, () => "comparison");
    list(fields, "pairs", () => "comparison").forEach((pair, i) => checkPair(pair, engines as Engine[], () => `comparison.pairs[${i}]`));
    list(fields, "checks", () => "comparison");
  }
  return parsed as Analysis;
}
