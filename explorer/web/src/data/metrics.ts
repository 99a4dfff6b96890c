// SPDX-License-Identifier: Apache-2.0
//
// What a scatter diagram can put on its axes. M, N and K are those of the product that a layer computes, from the shapes
// of its first output and its operations: flops = 2 M N K.
import { layerBytes } from "./columns";
import { share, type EngineModel } from "./engine_model";
import * as numbers from "./numbers";
import type { Layer } from "./schema";

export interface Metric { id: string; title: string; read: (model: EngineModel, index: number) => number | null | undefined; show: (value: number) => string }

export function productSizes(layer: Layer): { m: number; n: number; k: number } | null {
  const out = layer.outputs[0]?.shape;
  if (!/^(mat|gemm|fullyconn|conv|deconv)/i.test(layer.type) || !out || out.length < 2 || out.some((dim) => dim <= 0) || !layer.flops) return null;
  const volume = out.reduce((a, b) => a * b, 1);
  const n = /conv/i.test(layer.type) ? out[1]! : out[out.length - 1]!;
  return { m: volume / n, n, k: Math.round(layer.flops / 2 / volume) };
}

function activationBytes(layer: Layer): number | null {
  const uses = [...layer.inputs, ...layer.outputs].filter((use) => use.role === "activation");
  return uses.length === 0 ? null : uses.reduce((sum, use) => sum + (use.bytes ?? 0), 0);
}

export const kMetrics: readonly Metric[] = [
  { id: "time", title: "Time ms", read: (model, i) => model.timeMs[i], show: numbers.milliseconds },
  { id: "share", title: "Time %", read: (model, i) => share(model, i), show: (v) => numbers.percent(v, 2) },
  { id: "flops", title: "Operations", read: (model, i) => model.layers[i]!.flops, show: numbers.count },
  { id: "bytes", title: "Bytes", read: (model, i) => layerBytes(model.layers[i]!), show: numbers.bytes },
  { id: "activations", title: "Activations bytes", read: (model, i) => activationBytes(model.layers[i]!), show: numbers.bytes },
  { id: "intensity", title: "Intensity flop/byte", read: (model, i) => model.layers[i]!.intensity, show: numbers.plain },
  { id: "flop_rate", title: "Operations per second", read: (model, i) => model.layers[i]!.roofline.flops_per_s, show: numbers.count },
  { id: "byte_rate", title: "Bytes per second", read: (model, i) => model.layers[i]!.roofline.bytes_per_s, show: numbers.bytesPerSecond },
  { id: "weights", title: "Weights bytes", read: (model, i) => model.layers[i]!.weights_bytes, show: numbers.bytes },
  { id: "roof", title: "% of roof", read: (model, i) => model.layers[i]!.roofline.percent_of_roof, show: (v) => numbers.percent(v) },
  { id: "recoverable", title: "Recoverable ms", read: (model, i) => model.layers[i]!.roofline.recoverable_ms, show: numbers.milliseconds },
  { id: "m", title: "M of the product", read: (model, i) => productSizes(model.layers[i]!)?.m, show: numbers.count },
  { id: "n", title: "N of the product", read: (model, i) => productSizes(model.layers[i]!)?.n, show: numbers.count },
  { id: "k", title: "K of the product", read: (model, i) => productSizes(model.layers[i]!)?.k, show: numbers.count },
  { id: "error", title: "Own error", read: (model, i) => model.layers[i]!.error?.local, show: numbers.scientific },
  { id: "noise", title: "Noise %", read: (model, i) => model.layers[i]!.time?.noise_percent, show: (v) => numbers.percent(v) },
];

// A number in a file's own field: itself, or the product of a list ("Kernel": [3, 3] is 9).
function attributeNumber(value: unknown): number | null {
  if (typeof value === "number") return value;
  if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "number")) return value.reduce((a: number, b: number) => a * b, 1);
  return null;
}

// The quantities above that this engine knows, and every other number that its file gives for some layer (Groups, OutMaps,
// Kernel ...).
export function metricsOf(model: EngineModel): Metric[] {
  const names = new Set<string>();
  for (const layer of model.layers) {
    for (const [name, value] of Object.entries(layer.attributes)) if (attributeNumber(value) !== null) names.add(name);
  }
  const known = kMetrics.filter((metric) => model.layers.some((_, i) => Number.isFinite(metric.read(model, i) ?? NaN)));
  return [...known, ...[...names].sort().map((name): Metric => ({
    id: `field:${name}`, title: `${name} (field)`, show: numbers.count, read: (m, i) => attributeNumber((m.layers[i]!.attributes as Record<string, unknown>)[name]),
  }))];
}
