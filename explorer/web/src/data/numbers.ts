// SPDX-License-Identifier: Apache-2.0
//
// Numbers as text. A dash stands for "not known" everywhere. Digits: four significant ones for times, so that columns
// compare at a glance; the detail panel shows the file's own digits.
export const kUnknown = "–";

type Maybe = number | null | undefined;

function known(value: Maybe): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

function significant(value: number, digits: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return value.toFixed(Math.min(decimals, 12));
}

export function milliseconds(value: Maybe): string {
  if (!known(value)) return kUnknown;
  if (value === 0) return "0";
  if (Math.abs(value) < 0.0001) return significant(value, 2);
  return Math.abs(value) >= 1 ? significant(value, 4) : value.toFixed(4);
}

export function signedMilliseconds(value: Maybe): string {
  return known(value) ? (value > 0 ? "+" : value < 0 ? "−" : "") + milliseconds(Math.abs(value)) : kUnknown;
}

export function percent(value: Maybe, digits = 1): string {
  return known(value) ? value.toFixed(digits) : kUnknown;
}

export function signedPercent(value: Maybe, digits = 1): string {
  return known(value) ? (value > 0 ? "+" : value < 0 ? "−" : "") + percent(Math.abs(value), digits) : kUnknown;
}

// A round value on an axis: no zeros after the point.
export function tick(value: number): string {
  return String(Number(value.toPrecision(6)));
}

function scaled(value: number, base: number, units: string[]): string {
  let index = 0;
  let rest = value;
  while (Math.abs(rest) >= base && index + 1 < units.length) {
    rest /= base;
    index += 1;
  }
  const digits = index === 0 && Number.isInteger(rest) ? rest.toString() : significant(rest, 3);
  return units[index] ? `${digits} ${units[index]}` : digits;
}

export function bytes(value: Maybe): string {
  return known(value) ? scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]) : kUnknown;
}

// Operations: 12.3 G
export function count(value: Maybe): string {
  return known(value) ? scaled(value, 1000, ["", "k", "M", "G", "T", "P"]) : kUnknown;
}

export function flops(value: Maybe): string {
  return known(value) ? scaled(value, 1000, ["flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"]) : kUnknown;
}

export function flopsPerSecond(value: Maybe): string {
  return known(value) ? scaled(value, 1000, ["flop/s", "kflop/s", "Mflop/s", "Gflop/s", "Tflop/s", "Pflop/s"]) : kUnknown;
}

export function bytesPerSecond(value: Maybe): string {
  return known(value) ? scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]) : kUnknown;
}

export function plain(value: Maybe, digits = 3): string {
  return known(value) ? significant(value, digits) : kUnknown;
}

export function scientific(value: Maybe): string {
  return known(value) ? (value === 0 ? "0" : value.toExponential(1)) : kUnknown;
}

export function shape(dims: readonly number[]): string {
  return dims.length === 0 ? "scalar" : dims.map((dim) => (dim < 0 ? "?" : String(dim))).join("×");
}

// Tick positions of a linear axis: 1, 2 or 5 times a power of ten, at most `most` of them.
export function ticks(from: number, to: number, most: number): number[] {
  if (!(to > from)) return [from];
  const rough = (to - from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) ?? 10 * power;
  const result: number[] = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i += 1) result.push(i * step + 0);  // + 0: no -0
  return result;
}

// The same for sizes: whole KiB, MiB or GiB.
export function byteTicks(to: number, most: number): number[] {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(1, to)) / Math.log(1024)));
  return ticks(0, to / unit, most).map((tick) => tick * unit);
}
