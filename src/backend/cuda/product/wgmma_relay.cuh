// SPDX-License-Identifier: Apache-2.0
//
// A product with blocks that stay and hand their sums to three more warps, which finish them
// (codegen_relay.cpp); behind stages.cuh and wgmma_tiles.cuh. A warpgroup waits until its place is `drained`,
// stores its sums, and its warps arrive at `filled`; the helpers wait for that, finish the rows, and arrive
// at `drained`.
//
// Besides what those want the generator writes in front:
//   HANDED_OVER  bytes from the first stage to the sums in 16 bits
//   PITCH        elements from row to row of those
//   TOGETHER     vectors that a thread finishes at a time
//   T            the type in 16 bits
//   PACK(x, y)   two numbers in it

//# kRelay
constexpr int HELPERS = 96;

struct Handover {
  u16* sums;
  u64 *filled, *drained;  // barriers of each warpgroup
};

// `rows` rows of the tile from `first` on, by `threads` threads of which this one is number `thread`.
template <class Place, class Tail, class Stored>
DEV void finish_rows(const Handover& handover, const ProductTile& tile, int first, int rows, int thread,
                     int threads, Place place, const Tail& tail, Stored* result) {
  for (int i0 = thread; i0 < rows * (BN / V); i0 += TOGETHER * threads) {
    idx at[TOGETHER];
    float v[TOGETHER][V];
    typename Tail::Operands operands[TOGETHER];
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      const int i = i0 + u * threads, row = first + min(i / (BN / V), rows - 1), column = i % (BN / V) * V;
      at[u] = i < rows * (BN / V) ? place(tile.row0 + row, tile.column0 + column) : -1;
      tail.fetch(at[u] < 0 ? 0 : at[u], at[u] < 0 ? 0 : tile.column0 + column, operands[u]);
      load((const T*)handover.sums + row * PITCH + column, v[u]);
    }
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) tail.apply(operands[u], v[u]);
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u)
      if (at[u] >= 0) store(result + at[u], v[u]);
  }
}

// A warp's sixteen rows of sums, in 16 bits.
DEV void hand_over(const Handover& handover, const Sum (&sum)[BN / 2]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u16* strip = handover.sums + (warp * 16 + lane % 16) * PITCH + lane / 16 * 8;
#pragma unroll
  for (int j = 0; j < BN / 8; j += 2) {
    u32 r[4];
#pragma unroll
    for (int h = 0; h < 4; ++h) r[h] = PACK(sum[4 * j + 2 * h], sum[4 * j + 2 * h + 1]);
    store_matrix(strip + 8 * j, r);
  }
  __syncwarp();
}

template <class TileAt, class Place, class Tail, class Stored>
DEV void product_relay(const TensorMap* a_map, const TensorMap* b_map, int tiles, int steps, TileAt tile_at,
                       Place place, const Tail& tail, Stored* result) {
  const Stages stages = start_stages(a_map, b_map, [](u64* more) {
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
      barrier_init(more + group, 4);
      barrier_init(more + GROUPS + group, HELPERS / 32);
    }
  });
  u64* filled = stages.empty + STAGES;
  const Handover handover{(u16*)(stages.base + HANDED_OVER), filled, filled + GROUPS};
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
  const int stride = gridDim.x;
  if (threadIdx.x >= CONSUMERS + HELPERS) {
    if (lane == 0) bring_tiles<false>(stages, a_map, b_map, tiles, steps, tile_at);
    return;
  }
  if (threadIdx.x < CONSUMERS) {
    Turn turn{0, 0};
    int number = blockIdx.x;
    for (int parity = 1;; number += stride, parity ^= 1) {
      Sum sum[BN / 2] = {};
      multiply_stages<true>(stages, turn, steps, sum, [] {});
      barrier_wait(handover.drained + group, parity);
      hand_over(handover, sum);
      if (number + stride >= tiles) break;
      if (lane == 0) barrier_arrive(handover.filled + group);
    }
    // Nothing is left to multiply: each warp finishes its rows of the last tile itself.
    wait_for_previous_kernel();
    finish_rows(handover, tile_at(number), warp * 16, 16, lane, 32, place, tail, result);
    return;
  }
  wait_for_previous_kernel();
  int parity = 0;
  for (int number = blockIdx.x; number + stride < tiles; number += stride, parity ^= 1) {
    const ProductTile tile = tile_at(number);
    for (int g = 0; g < GROUPS; ++g) {
      barrier_wait(handover.filled + g, parity);
      finish_rows(handover, tile, g * 64, 64, threadIdx.x - CONSUMERS, HELPERS, place, tail, result);
      __syncwarp();
      if (lane == 0) barrier_arrive(handover.drained + g);
    }
  }
}
