// SPDX-License-Identifier: Apache-2.0
//
// What a set of layers has in common, column by column: numbers give least, greatest, mean and total; texts give their
// values by frequency.
import { numbersOf, textsOf, type Column } from "./columns";
import type { EngineModel } from "./engine_model";

export interface NumberSummary { kind: "number"; known: number; min: number; max: number; mean: number; total: number }
export interface TextSummary { kind: "text"; values: [value: string, count: number][] }

export function summarize(model: EngineModel, rows: readonly number[], column: Column): NumberSummary | TextSummary {
  if (!column.number) {
    const texts = textsOf(model, column);
    const counts = new Map<string, number>();
    for (const row of rows) {
      const value = texts[row]!;
      counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    return { kind: "text", values: [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)) };
  }
  const all = numbersOf(model, column);
  const values = rows.map((row) => all[row]!).filter((value) => !Number.isNaN(value));
  const total = exactSum(values);
  return {
    kind: "number", known: values.length, total,
    min: values.reduce((a, b) => Math.min(a, b), Infinity),
    max: values.reduce((a, b) => Math.max(a, b), -Infinity),
    mean: values.length > 0 ? total / values.length : NaN,
  };
}

// Compensated (Neumaier): the total of all rows must agree with the file's own sum to the digits shown.
export function exactSum(values: readonly number[]): number {
  let sum = 0;
  let lost = 0;
  for (const value of values) {
    const next = sum + value;
    lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
    sum = next;
  }
  return sum + lost;
}

export interface Group { key: string; rows: number[]; timeMs: number }

// Rows by a property, largest time first; layers without a time count as 0.
export function groupBy(model: EngineModel, rows: readonly number[], keyOf: (row: number) => string): Group[] {
  const groups = new Map<string, number[]>();
  for (const row of rows) {
    const key = keyOf(row);
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  return [...groups]
    .map(([key, members]) => ({ key, rows: members, timeMs: exactSum(members.map((row) => model.timeMs[row] || 0)) }))
    .sort((a, b) => b.timeMs - a.timeMs || (a.key < b.key ? -1 : 1));
}
