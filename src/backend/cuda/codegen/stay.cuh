// SPDX-License-Identifier: Apache-2.0
//
// Blocks that stay and compute tile after tile, for products and convolutions; behind stages.cuh. One warp
// fills the stages; this is what the others do.
//
// Teams take turns: while one finishes its tile, the next multiplies. Stages are filled in the order of
// tiles, so that a team may wait for its first only when the one before it has had its last: until then the
// parity of a stage does not say which of its fillings is there.
//
// Besides what that wants the generator writes in front:
//   STRIPS  bytes from the first stage to the results of the warps
//   PITCH   elements from row to row of those
//   WHOLE_COLUMNS  every tile has BN columns
//   RUN     columns side by side that a thread finishes at once: 2, or more of those that are dealt to it
//
// The sums of a product lie in pairs, columns 8 j + 2 t of each row with thread t of four. Where columns come
// in whole tiles, rows of B may be brought in an order that deals thread t the columns from BN / 4 * t on
// (DEALT): operands of the epilogue are then whole vectors. In pairs each load of a warp touches eight lines
// for 64 numbers.

//# kTiles
constexpr bool DEALT = RUN > 2;
constexpr int RUNS = BN / 4 / RUN, NEXT_RUN = DEALT ? RUN : 8;  // of a thread in a row; from one to the next

// The barriers of each team, of which it waits for its own: the one before it has multiplied.
DEV void start_turns(u64* turns) {
  for (int i = 0; TEAMS > 1 && i < TEAMS; ++i) barrier_init(turns + i, 4 * GROUPS);
}

// What the warps that multiply do: tile after tile. tile_at(number) has row0 and column0, where it begins for
// place(row, column), and b_row, its first row of B. `products` is an object with skip(tiles), which goes on
// behind the steps of so many tiles that other teams multiply, and multiply(sum, started), as
// multiply_stages() has it.
template <class Products, class TileAt, class StartSums, class Place, class Tail, class Stored>
DEV void finish_tiles(char* base, u64* turns, int tiles, idx columns, Products products, TileAt tile_at,
                      StartSums start_sums, Place place, const Tail& tail, Stored* result) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  Stored* strip = (Stored*)(base + STRIPS) + warp * 16 * PITCH;
  wait_for_previous_kernel();
  const int team = threadIdx.x / TEAM;
  products.skip(team);
  // Finishings of the team before that this one waits for; the first team begins without.
  int round = team == 0 ? -1 : 0;
  for (int number = blockIdx.x + team * gridDim.x; number < tiles; number += TEAMS * gridDim.x, ++round) {
    const auto tile = tile_at(number);
    const idx row0 = tile.row0 + threadIdx.x % TEAM / 32 * 16;
    // A thread finishes its own sums: of rows g and g + 8, runs of columns from `own` on. What the tail
    // reads at their places is on its way while they are multiplied.
    const int own = t * (DEALT ? BN / 4 : 2);
    typename Tail::Places places[RUNS][2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const idx row = row0 + g + 8 * h, first = place(row, tile.column0 + own);
#pragma unroll
      for (int r = 0; r < RUNS; ++r) {
        const idx at = WHOLE_COLUMNS ? first : place(row, tile.column0 + own + NEXT_RUN * r);
        tail.fetch_place((at < 0 ? 0 : at) + (WHOLE_COLUMNS ? NEXT_RUN * r : 0), places[r][h]);
      }
    }
    Sum sum[BN / 2];
    start_sums(sum, tile.b_row);
    if (TEAMS > 1 && round >= 0) barrier_wait(turns + team, round & 1);
    products.multiply(sum, [&] {
      if (TEAMS > 1 && lane == 0) barrier_arrive(turns + (team + 1) % TEAMS);
    });
    products.skip(TEAMS - 1);
#pragma unroll
    for (int r = 0; r < RUNS; ++r) {
      const idx column = tile.column0 + own + NEXT_RUN * r;
      typename Tail::Columns of_columns;
      tail.fetch_columns(WHOLE_COLUMNS || column < columns ? column : 0, of_columns);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float v[RUN];
#pragma unroll
        for (int i = 0; i < RUN; ++i) v[i] = (float)sum[4 * (RUN / 2 * r + i / 2) + 2 * h + i % 2];
        tail.apply_columns(of_columns, v);
        tail.apply_place(of_columns, places[r][h], v);
        Stored* const at = strip + (g + 8 * h) * PITCH + own + NEXT_RUN * r;
        if constexpr (DEALT)
          store(at, v);
        else
          store_pair(at, v);
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
