// SPDX-License-Identifier: Apache-2.0
//
// Engines that differ in one dimension of an input, as points of lines: latency over batch, or over sequence length. What
// belongs to one line has the same name but for the shapes that a sweep writes behind it.
import { typicalMs } from "./engine_model";
import type { Engine } from "./schema";

export interface SweepPoint { x: number; ms: number; engine: number }
export interface SweepLine { name: string; points: SweepPoint[] }
export interface Sweep { axis: string; isBatch: boolean; lines: SweepLine[] }

interface Input { name: string; shape: readonly number[] }

function inputsOf(engine: Engine): Input[] {
  return engine.bindings.filter((binding) => binding.io === "input").map((binding) => ({
    name: binding.name,
    shape: binding.tensor === null ? binding.shape : engine.tensors[binding.tensor]!.shape,
  }));
}

// "r50 8x3x224x224" -> "r50"
function lineName(engine: Engine): string {
  return engine.name.replace(/ (?:\S+:)?\d+(?:x\d+)*(?:,\S+:\d+(?:x\d+)*)*$/, "");
}

// The one dimension in which the inputs of all engines differ, null when they differ in none. The batch, when it is among them:
// with it all inputs of a model change.
function axisOf(inputs: readonly (readonly Input[])[]): { input: string; dim: number } | null {
  const first = inputs[0]!;
  for (let dim = 0; dim < 8; dim += 1) {
    for (const { name, shape } of first) {
      if (dim >= shape.length) continue;
      const values = inputs.map((list) => list.find((one) => one.name === name)?.shape[dim]);
      if (values.some((value) => value === undefined || value <= 0)) continue;
      if (new Set(values).size > 1) return { input: name, dim };
    }
  }
  return null;
}

export function sweepOf(engines: readonly Engine[]): Sweep | null {
  if (engines.length < 2) return null;
  const inputs = engines.map(inputsOf);
  const axis = axisOf(inputs);
  if (!axis) return null;
  const lines = new Map<string, SweepLine>();
  engines.forEach((engine, i) => {
    const ms = typicalMs(engine);
    const x = inputs[i]!.find((one) => one.name === axis.input)!.shape[axis.dim]!;
    if (ms === null || !(ms > 0)) return;
    const name = lineName(engine);
    const line = lines.get(name) ?? { name, points: [] };
    lines.set(name, line);
    line.points.push({ x, ms, engine: i });
  });
  for (const line of lines.values()) line.points.sort((a, b) => a.x - b.x);
  const found = [...lines.values()];
  if (!found.some((line) => line.points.length > 1)) return null;
  const isBatch = axis.dim === 0;
  return { axis: isBatch ? "batch" : `dim ${axis.dim} of ${axis.input}`, isBatch, lines: found };
}
