// SPDX-License-Identifier: Apache-2.0
//
// A picture of buffers: each a rectangle, its lifetime wide and its size high, none over another. Placed largest first at
// the lowest free height. It shows what must be alive together, for engines that do not say where they put them.
export interface Life { id: number; first: number; last: number; bytes: number }
export interface PlacedLife extends Life { offset: number }

export function packLives(lives: readonly Life[]): PlacedLife[] {
  const placed: PlacedLife[] = [];
  for (const life of [...lives].sort((a, b) => b.bytes - a.bytes || a.first - b.first || a.id - b.id)) {
    const others = placed.filter((other) => other.first <= life.last && life.first <= other.last).sort((a, b) => a.offset - b.offset);
    let offset = 0;
    for (const other of others) {
      if (other.offset - offset >= life.bytes) break;
      offset = Math.max(offset, other.offset + other.bytes);
    }
    placed.push({ ...life, offset });
  }
  return placed;
}
