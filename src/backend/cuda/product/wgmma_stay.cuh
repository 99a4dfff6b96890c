// SPDX-License-Identifier: Apache-2.0
//
// A product with blocks that stay and compute tile after tile (codegen_stay.cpp); behind stages.cuh and
// wgmma_tiles.cuh.
//
// Teams take turns: while one finishes its tile, the next multiplies. Stages are filled in the order of
// tiles, so that a team may wait for its first only when the one before it has had its last: until then the
// parity of a stage does not say which of its fillings is there.
//
// Besides what those want the generator writes in front:
//   STRIPS  bytes from the first stage to the results of the warps
//   PITCH   elements from row to row of those
//   WHOLE_COLUMNS  every tile has BN columns

//# kStay
template <class TileAt, class StartSums, class Place, class Tail, class Stored>
DEV void product_stays(const TensorMap* a_map, const TensorMap* b_map, int tiles, int steps, idx columns,
                       TileAt tile_at, StartSums start_sums, Place place, const Tail& tail, Stored* result) {
  const Stages stages = start_stages(a_map, b_map, [](u64* turns) {
    for (int i = 0; TEAMS > 1 && i < TEAMS; ++i) barrier_init(turns + i, 4 * GROUPS);
  });
  u64* const turns = stages.empty + STAGES;  // of each team: the one before it has multiplied
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  if (threadIdx.x >= CONSUMERS) {
    if (lane == 0) bring_tiles(stages, a_map, b_map, tiles, steps, tile_at);
    return;
  }
  Stored* strip = (Stored*)(stages.base + STRIPS) + warp * 16 * PITCH;
  wait_for_previous_kernel();
  const int team = threadIdx.x / TEAM;
  Turn turn{0, 0};
  turn.advance(team * steps);
  // Finishings of the team before that this one waits for; the first team begins without.
  int round = team == 0 ? -1 : 0;
  for (int number = blockIdx.x + team * gridDim.x; number < tiles; number += TEAMS * gridDim.x, ++round) {
    const ProductTile tile = tile_at(number);
    const idx row0 = tile.row0 + threadIdx.x % TEAM / 32 * 16;
    // A thread finishes its own sums: pairs of columns 8 j + 2 t of rows g and g + 8. What the tail reads at
    // their places is on its way while they are multiplied.
    typename Tail::Places places[BN / 8][2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const idx row = row0 + g + 8 * h, first = place(row, tile.column0 + t * 2);
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
        const idx at = WHOLE_COLUMNS ? first : place(row, tile.column0 + 8 * j + t * 2);
        tail.fetch_place((at < 0 ? 0 : at) + (WHOLE_COLUMNS ? 8 * j : 0), places[j][h]);
      }
    }
    Sum sum[BN / 2];
    start_sums(sum, tile.b_row);
    if (TEAMS > 1 && round >= 0) barrier_wait(turns + team, round & 1);
    multiply_stages<true>(stages, turn, steps, sum, [&] {
      if (TEAMS > 1 && lane == 0) barrier_arrive(turns + (team + 1) % TEAMS);
    });
    turn.advance((TEAMS - 1) * steps);
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
      const idx column = tile.column0 + 8 * j + t * 2;
      typename Tail::Columns of_columns;
      tail.fetch_columns(WHOLE_COLUMNS || column < columns ? column : 0, of_columns);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float v[2] = {(float)sum[4 * j + 2 * h], (float)sum[4 * j + 2 * h + 1]};
        tail.apply_columns(of_columns, v);
        tail.apply_place(of_columns, places[j][h], v);
        store_pair(strip + (g + 8 * h) * PITCH + 8 * j + t * 2, v);
      }
    }
    // As they are stored they lie in memory of the warp, which stores whole vectors.
    __syncwarp();
#pragma unroll 4
    for (int i = lane; i < 16 * (BN / V); i += 32) {
      const int row = i / (BN / V), column = i % (BN / V) * V;
      const idx at = place(row0 + row, tile.column0 + column);
      Raw<Stored, V> x;
      load_raw(strip + row * PITCH + column, x);
      if (at >= 0) store_raw(result + at, x);
    }
    __syncwarp();
  }
}
