// SPDX-License-Identifier: Apache-2.0
//
// A convolution with a block for each tile of the result, or for each part of a tile's sums
// (codegen_conv.cpp); behind stages.cuh.
//
// Besides what that wants the generator writes in front:
//   SPLITS                  parts of K
//   PIECES                  steps of K that the channels of a tap are
//   KERNEL_W                columns of a window
//   DILATION_W, DILATION_H  pixels from tap to tap

//# kConv
// The window of the tile's first pixel: its corner and its image.
struct Window {
  int x, y, image;
};

// The sums of `steps` steps of K from `first` on; `results` as stages.cuh has it.
template <class StartSums, class Results>
DEV void conv_block(const TensorMap* pixels, const TensorMap* weights, const Window& window, idx column0,
                    int first, int steps, StartSums start_sums, Results results) {
  const Stages stages = start_stages(pixels, weights);
  const auto copy_pixels = [&](int i, int s) {
    const int step = first + i, tap = step / PIECES;
    copy_windows(stages.a(s), pixels, step % PIECES * KSTEP, window.x, window.y, window.image,
                 tap % KERNEL_W * DILATION_W, tap / KERNEL_W * DILATION_H, stages.full + s);
  };
  const auto copy_weights = [&](int i, int s) {
    copy_box(stages.b(s, i), weights, (first + i) * KSTEP, (int)column0, stages.full + s);
  };
  const auto start = [&](Sum(&sum)[BN / 2]) { start_sums(sum, column0); };
  compute_tile(stages, steps, copy_pixels, copy_weights, start, results);
}

//# kShare
// Results where SPLITS blocks of a cluster have a part of K each, `split` this one's: each adds up an equal
// share of the tile, the first block's part first, and finishes it. What the tail reads is loaded in front of
// the products.
template <class Place, class Tail, class T> struct ShareOfTile {
  static constexpr int SHARE = ROWS * (BN / V) / SPLITS, COUNT = (SHARE + CONSUMERS - 1) / CONSUMERS;
  const idx row0, column0;
  const int split;
  const Place place;
  const Tail tail;
  T* const result;
  idx at[COUNT];
  typename Tail::Operands operands[COUNT];

  DEV ShareOfTile(idx row0, idx column0, int split, const Place& place, const Tail& tail, T* result)
      : row0(row0), column0(column0), split(split), place(place), tail(tail), result(result) {}
  DEV bool is_mine(int u) const { return u * CONSUMERS + (int)threadIdx.x < SHARE; }
  // The vector of the tile that is this thread's in turn `u`.
  DEV int vector_at(int u) const { return split * SHARE + (is_mine(u) ? u * CONSUMERS + threadIdx.x : 0); }
  DEV void load_first() {
#pragma unroll
    for (int u = 0; u < COUNT; ++u) {
      const int e = vector_at(u);
      const idx column = column0 + e % (BN / V) * V;
      at[u] = is_mine(u) ? place(row0 + e / (BN / V), column) : -1;
      tail.fetch(at[u] < 0 ? 0 : at[u], at[u] < 0 ? 0 : column, operands[u]);
    }
  }
  DEV void store_all(const float* tile) {
    cluster_arrive();
    cluster_wait();
    float v[COUNT][V];
#pragma unroll
    for (int u = 0; u < COUNT; ++u) {
      const int e = vector_at(u), row = e / (BN / V), column = e % (BN / V) * V;
      sum_over_blocks<SPLITS>(tile + row * PITCH + column, v[u]);
      tail.apply(operands[u], v[u]);
    }
    // Nobody leaves before all have read.
    cluster_arrive();
#pragma unroll
    for (int u = 0; u < COUNT; ++u)
      if (at[u] >= 0) store(result + at[u], v[u]);
    cluster_wait();
  }
};
template <class Place, class Tail, class T>
DEV ShareOfTile<Place, Tail, T> share_of_tile(idx row0, idx column0, int split, const Place& place,
                                              const Tail& tail, T* result) {
  return {row0, column0, split, place, tail, result};
}
