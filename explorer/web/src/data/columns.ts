// SPDX-License-Identifier: Apache-2.0
//
// The layer table's columns: how each is read, sorted, shown and summed up. A column is a number or a text; `total`
// says that adding its values up means something.
import { isOverhead, share, type EngineModel } from "./engine_model";
import * as numbers from "./numbers";
import type { Layer, TensorUse } from "./schema";

export interface Column {
  id: string;
  title: string;
  tip: string;
  width: number;
  initially: boolean;
  number?: (model: EngineModel, index: number) => number | null | undefined;
  text?: (model: EngineModel, index: number) => string;
  show?: (value: number | null | undefined) => string; // numbers
  total?: boolean;
}

function shapes(uses: readonly TensorUse[]): string {
  return uses.filter((use) => use.role !== "weights").map((use) => numbers.shape(use.shape)).join(", ");
}

function text(id: string, title: string, width: number, initially: boolean, read: (layer: Layer) => string, tip: string): Column {
  return { id, title, width, initially, tip, text: (model, index) => read(model.layers[index]!) };
}

function value(id: string, title: string, width: number, initially: boolean, read: (layer: Layer) => number | null | undefined,
               show: (value: number | null | undefined) => string, total: boolean, tip: string): Column {
  return { id, title, width, initially, tip, show, total, number: (model, index) => read(model.layers[index]!) };
}

export const kColumns: readonly Column[] = [
  { id: "index", title: "#", width: 52, initially: true, tip: "Position in execution order", number: (_, index) => index, show: String },
  { id: "name", title: "Layer", width: 280, initially: true, tip: "Layer name", text: (model, index) => model.layers[index]!.name },
  text("type", "Type", 128, true, (layer) => layer.type, "Family of the layer"),
  value("time", "Time ms", 84, true, (layer) => layer.time?.average_ms, numbers.milliseconds, true, "Average time of one run"),
  { id: "share", title: "%", width: 70, initially: true, tip: "Share of the layer sum", total: true, show: (v) => numbers.percent(v, 2),
    number: (model, index) => share(model, index) },
  value("median", "Median ms", 92, false, (layer) => layer.time?.median_ms, numbers.milliseconds, true, "Median time"),
  value("noise", "Noise %", 70, false, (layer) => layer.time?.noise_percent, numbers.percent, false, "Relative spread over iterations"),
  value("total_time", "Total ms", 84, false, (layer) => layer.time?.total_ms, numbers.milliseconds, true, "Over all iterations"),
  text("precision", "Precision", 84, true, (layer) => layer.precision, "Type of the arithmetic"),
  text("input_precision", "In type", 72, false, (layer) => layer.input_precision, "Of the first activation input"),
  text("output_precision", "Out type", 72, false, (layer) => layer.output_precision, "Of the first output"),
  text("verdict", "Bound by", 84, true, (layer) => layer.roofline.verdict, "What bounds the layer: compute, memory or launch"),
  value("roof", "% of roof", 84, true, (layer) => layer.roofline.percent_of_roof, numbers.percent, false, "Least time that the roof allows / time"),
  value("recoverable", "Recoverable ms", 122, true, (layer) => layer.roofline.recoverable_ms, numbers.milliseconds, true, "Won at 80 % of the roof"),
  value("flops", "Operations", 88, false, (layer) => layer.flops, numbers.count, true, "Of one run; a multiply-add is two"),
  value("bytes", "Bytes", 84, false, (layer) => layerBytes(layer), numbers.bytes, true, "Read and written, weights included"),
  value("intensity", "flop/byte", 76, false, (layer) => layer.intensity, numbers.plain, false, "Arithmetic intensity"),
  value("flop_rate", "Rate", 96, false, (layer) => layer.roofline.flops_per_s, numbers.flopsPerSecond, false, "Operations per second reached"),
  value("byte_rate", "Bandwidth", 92, false, (layer) => layer.roofline.bytes_per_s, numbers.bytesPerSecond, false, "Bytes per second reached"),
  value("weights", "Weights", 84, false, (layer) => layer.weights_bytes, numbers.bytes, true, "Bytes of weights and bias"),
  text("tactic", "Tactic", 200, true, (layer) => layer.tactic, "Kernel that runs it"),
  text("runner", "Runner", 140, false, (layer) => layer.runner, "LayerType of the file"),
  text("kind", "Kind", 78, false, (layer) => (isOverhead(layer) ? `${layer.kind} (overhead)` : layer.kind), "Role in the engine"),
  value("stream", "Stream", 60, false, (layer) => layer.stream, (v) => String(v ?? numbers.kUnknown), false, "Stream it runs on"),
  text("inputs", "Inputs", 150, false, (layer) => shapes(layer.inputs), "Shapes of activation inputs"),
  text("outputs", "Outputs", 140, true, (layer) => shapes(layer.outputs), "Shapes of outputs"),
  value("nodes", "Nodes", 66, true, (layer) => layer.origins.length, (v) => (Number.isInteger(v) ? String(v) : numbers.plain(v)), true, "ONNX nodes that it implements"),
  value("error", "Own error", 82, false, (layer) => layer.error?.local, numbers.scientific, false, "Largest relative error that the layer itself adds"),
  value("accumulated", "Error so far", 90, false, (layer) => layer.error?.accumulated, numbers.scientific, false, "Error of its result in the whole run"),
];

export function layerBytes(layer: Layer): number | null {
  return layer.bytes_read === null && layer.bytes_written === null ? null : (layer.bytes_read ?? 0) + (layer.bytes_written ?? 0);
}

export function columnById(id: string): Column | undefined {
  return kColumns.find((column) => column.id === id);
}

// A column's values for all layers, read once: filtering and summing ten thousand layers at every key press would build
// the same texts again.
const kValues = new WeakMap<EngineModel, Map<string, unknown>>();

function cached<T>(model: EngineModel, key: string, make: () => T): T {
  const columns = kValues.get(model) ?? new Map<string, unknown>();
  kValues.set(model, columns);
  if (!columns.has(key)) columns.set(key, make());
  return columns.get(key) as T;
}

// NaN: not known.
export function numbersOf(model: EngineModel, column: Column): Float64Array {
  return cached(model, column.id, () => Float64Array.from(model.layers, (_, i) => column.number!(model, i) ?? NaN));
}

export function textsOf(model: EngineModel, column: Column): readonly string[] {
  return cached(model, column.id, () => model.layers.map((_, i) => column.text!(model, i)));
}

const kSaysNothing = new Set([numbers.kUnknown, "", "unknown"]);

// Columns that say nothing about this engine are not shown at first; error columns are when there is an error.
export function initialColumns(model: EngineModel): string[] {
  const hasError = model.layers.some((layer) => layer.error !== null);
  return kColumns.filter((column) => {
    if (column.id === "error" || column.id === "accumulated") return hasError;
    if (!column.initially) return false;
    if (column.id === "name" || column.id === "index") return true;
    return model.layers.some((_, i) => !kSaysNothing.has(cellText(model, column, i)));
  }).map((column) => column.id);
}

export function cellText(model: EngineModel, column: Column, index: number): string {
  return column.number ? column.show!(column.number(model, index)) : column.text!(model, index);
}

// Layers in the order of a column; unknown values last in both directions, ties in execution order.
export function sortLayers(model: EngineModel, rows: readonly number[], column: Column, descending: boolean): number[] {
  const sign = descending ? -1 : 1;
  if (column.number) {
    const keys = numbersOf(model, column);
    return [...rows].sort((a, b) => {
      const [x, y] = [keys[a]!, keys[b]!];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
      return sign * (x - y) || a - b;
    });
  }
  const keys = textsOf(model, column);
  return [...rows].sort((a, b) => {
    const [x, y] = [keys[a]!, keys[b]!];
    if (x === "" || y === "") return Number(x === "") - Number(y === "") || a - b;
    return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
  });
}

// Tab-separated or comma-separated text of a table, numbers with all their digits.
export function tableText(model: EngineModel, rows: readonly number[], columns: readonly Column[], separator: "\t" | ","): string {
  const quote = (cell: string) => (/["\n\t,]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const cell = (column: Column, row: number) =>
    column.number ? String(column.number(model, row) ?? "").replace("NaN", "") : guarded(column.text!(model, row));
  return [columns.map((column) => column.title), ...rows.map((row) => columns.map((column) => cell(column, row)))]
    .map((line) => line.map(quote).join(separator)).join("\n") + "\n";
}

// A spreadsheet runs a cell that begins like a formula; a layer name must not.
function guarded(cell: string): string {
  return /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
}
