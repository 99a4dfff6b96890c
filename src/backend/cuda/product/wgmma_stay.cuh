// SPDX-License-Identifier: Apache-2.0
//
// A product with blocks that stay and compute tile after tile (codegen_stay.cpp); behind stages.cuh, stay.cuh
// and wgmma_tiles.cuh.

//# kStay
// The products of `steps` steps of K as their stages arrive.
struct StagedProducts {
  const Stages& stages;
  int steps;
  Turn turn;

  DEV void skip(int tiles) { turn.advance(tiles * steps); }
  template <class Started> DEV void multiply(Sum (&sum)[BN / 2], Started started) {
    multiply_stages<true>(stages, turn, steps, sum, started);
  }
};

template <class TileAt, class StartSums, class Place, class Tail, class Stored>
DEV void product_stays(const TensorMap* a_map, const TensorMap* b_map, int tiles, int steps, idx columns,
                       TileAt tile_at, StartSums start_sums, Place place, const Tail& tail, Stored* result) {
  const Stages stages = start_stages(a_map, b_map, [](u64* more) { start_turns(more); });
  if (threadIdx.x >= CONSUMERS) {
    if (threadIdx.x % 32 == 0) bring_tiles<DEALT>(stages, a_map, b_map, tiles, steps, tile_at);
    return;
  }
  finish_tiles(stages.base, stages.empty + STAGES, tiles, columns, StagedProducts{stages, steps, {0, 0}},
               tile_at, start_sums, place, tail, result);
}
