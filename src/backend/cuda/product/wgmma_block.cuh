// SPDX-License-Identifier: Apache-2.0
//
// A product with a block for each tile of the result, or for each part of a tile's sums (codegen_wgmma.cpp);
// behind stages.cuh and wgmma_tiles.cuh.

//# kBlock
// The sums of `steps` steps of K from `first` on; `results` as stages.cuh has it.
template <class StartSums, class Results>
DEV void product_block(const TensorMap* a_map, const TensorMap* b_map, const ProductTile& tile, int first,
                       int steps, StartSums start_sums, Results results) {
  const Stages stages = start_stages(a_map, b_map);
  const auto copy_a = [&](int i, int s) {
    copy_box(stages.a(s), a_map, (first + i) * KSTEP, tile.a_row, stages.full + s);
  };
  const auto copy_b = [&](int i, int s) {
    copy_box(stages.b(s, i), b_map, (first + i) * KSTEP, tile.b_row, stages.full + s);
  };
  const auto start = [&](Sum(&sum)[BN / 2]) { start_sums(sum, tile.b_row); };
  compute_tile(stages, steps, copy_a, copy_b, start, results);
}

//# kShare
// Results where SPLITS blocks of a cluster have a part of K each, `split` this one's: each adds up an equal
// share of the tile, in the order of the parts, and finishes it.
template <class Place, class Tail, class T> struct ShareOfTile {
  static constexpr int SHARE = (ROWS * (BN / V) + SPLITS - 1) / SPLITS;
  idx row0, column0;
  int split;
  Place place;
  Tail tail;
  T* result;

  DEV void load_first() {}
  DEV void store_all(const float* tile) {
    cluster_arrive();
    cluster_wait();
    for (int i = threadIdx.x; i < SHARE; i += CONSUMERS) {
      const int n = split * SHARE + i, row = n / (BN / V), column = n % (BN / V) * V;
      const idx at = n < ROWS * (BN / V) ? place(row0 + row, column0 + column) : -1;
      if (at < 0) continue;
      float v[V];
      typename Tail::Operands operands;
      tail.fetch(at, column0 + column, operands);
      sum_over_blocks<SPLITS>(tile + row * PITCH + column, v);
      tail.apply(operands, v);
      store(result + at, v);
    }
    // Others may still read what this block holds.
    __syncwarp();
    cluster_arrive();
    cluster_wait();
  }
};
template <class Place, class Tail, class T>
DEV ShareOfTile<Place, Tail, T> share_of_tile(idx row0, idx column0, int split, const Place& place,
                                              const Tail& tail, T* result) {
  return {row0, column0, split, place, tail, result};
}
