// SPDX-License-Identifier: Apache-2.0
//
// Which tiles of a product the blocks of wgmma_block.cuh, wgmma_stay.cuh and wgmma_relay.cuh compute, and how
// the warp that fills the stages (stages.cuh) brings their operands.

//# kTiles
// Where the tile lies in a result of its batch, and the first rows of its operands in the tensor maps of A
// and B.
struct ProductTile {
  idx row0, column0;
  int a_row, b_row;
};

// Brings one tile after the other: every gridDim.x-th of `tiles`. DEALT: the map of B gives blocks of its
// rows in another order.
template <bool DEALT, class TileAt>
DEV void bring_tiles(const Stages& stages, const TensorMap* a_map, const TensorMap* b_map, int tiles,
                     int steps, TileAt tile_at) {
  Turn turn{0, 1};
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    const ProductTile tile = tile_at(number);
    const auto copy_a = [&](int i, int s) {
      copy_box(stages.a(s), a_map, i * KSTEP, tile.a_row, stages.full + s);
    };
    const auto copy_b = [&](int i, int s) {
      if (DEALT)
        copy_block(stages.b(s, i), b_map, i * KSTEP, tile.b_row / BN, stages.full + s);
      else
        copy_box(stages.b(s, i), b_map, i * KSTEP, tile.b_row, stages.full + s);
    };
    const bool first = number == (int)blockIdx.x;
    const int brought = first ? bring_first(stages, turn, steps, copy_a, copy_b) : 0;
    bring(stages, turn, brought, steps, first || !KEPT, copy_a, copy_b);
  }
}
