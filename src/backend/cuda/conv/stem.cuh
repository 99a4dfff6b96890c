// SPDX-License-Identifier: Apache-2.0
//
// The first convolution of an image network (codegen_stem.cpp says how): planes of an image in, channels-last
// out.
//
// The generator writes in front:
//   THREADS               of a block
//   GROUPS                of four warps each
//   TH, TX                rows of results of a block, and tiles of sixteen pixels in a row
//   BN, N                 channels of a block, and of the result
//   V                     results that are stored at once
//   WEIGHT_BYTES          of a block, in shared memory
//   CHANNELS              of the image
//   KH                    rows of a window
//   KW                    columns of a window, padded to 4 or 8
//   KROWS                 rows of a window over all channels
//   KP                    all of K, padded to 16
//   SH                    rows from window to window
//   ROWS_IN, WORDS        rows of the image that a block sees, and pairs of pixels in one
//   PAIRS                 a row of the image is whole pairs
//   HAS_OPERANDS          the tail reads what lies where results do
//   T                     type of the products
//   PAIR(x, y)            two numbers in it
//   MULTIPLY(sums, a, b)  64 rows in registers times BN rows of weights

//# kStem
// The image, of which a block reads from (x0, y0) on, and the result, which it writes from (ox0, oy0) on.
struct StemExtents {
  idx width, height, out_width, out_height;
};
struct StemTile {
  idx image, x0, y0, ox0, oy0;
};

// The rows of the image that the block's windows see become pairs of 16 bits in shared memory. All loads are
// under way before the first is waited for.
template <class Pixel>
DEV void load_rows(u32* xs, const Pixel* planes, const StemExtents& e, const StemTile& tile) {
  constexpr int LOADED = CHANNELS * ROWS_IN * WORDS, LOADS = (LOADED + THREADS - 1) / THREADS;
  float pair[LOADS][2];
#pragma unroll
  for (int u = 0; u < LOADS; ++u) {
    const int i = u * THREADS + threadIdx.x, row = i / WORDS;
    const idx y = tile.y0 + row % ROWS_IN, x = tile.x0 + i % WORDS * 2;
    const bool inside = i < LOADED && y >= 0 && y < e.height;
    const Pixel* from = planes + ((tile.image * CHANNELS + row / ROWS_IN) * e.height + y) * e.width + x;
    if constexpr (PAIRS) {
      const bool both = inside && x >= 0 && x < e.width;
      load(both ? from : planes, pair[u]);
      if (!both) pair[u][0] = pair[u][1] = 0.f;
    } else {
      const bool first = inside && x >= 0 && x < e.width, second = inside && x + 1 >= 0 && x + 1 < e.width;
      pair[u][0] = widen(first ? from[0] : planes[0]);
      pair[u][1] = widen(second ? from[1] : planes[0]);
      if (!first) pair[u][0] = 0.f;
      if (!second) pair[u][1] = 0.f;
    }
  }
#pragma unroll
  for (int u = 0; u < LOADS; ++u) {
    const int i = u * THREADS + threadIdx.x;
    if (i < LOADED) xs[i] = PAIR(pair[u][0], pair[u][1]);
  }
}

// Results of 16 bits, or bytes of a grid.
template <class R> DEV void put_pair(R* to, const float (&v)[2]) {
  if constexpr (sizeof(R) == sizeof(T))
    *(u32*)to = PAIR(v[0], v[1]);
  else
    store_pair(to, v);
}

template <class Pixel, class R, class Place, class Tail>
DEV void compute_stem(const Pixel* planes, const T* weights, R* result, const StemExtents& e,
                      const StemTile& tile, Place place, const Tail& tail) {
  constexpr int PITCH = BN + 16 / (int)sizeof(R);  // of a warp's results, which wait to be whole vectors
  const idx n0 = blockIdx.y * BN;
  char* base = aligned_shared_memory();
  u32* xs = (u32*)(base + WEIGHT_BYTES);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  for (int i = threadIdx.x; i < WEIGHT_BYTES / 16; i += THREADS)
    copy_async(base + i * 16, (const char*)weights + blockIdx.y * WEIGHT_BYTES + i * 16, 16);
  copy_commit();
  wait_for_previous_kernel();
  load_rows(xs, planes, e, tile);
  copy_wait<0>();
  stored_before_products();
  __syncthreads();
  R* strip = (R*)(xs + (CHANNELS * ROWS_IN * WORDS + 3) / 4 * 4) + warp * 16 * PITCH;
  typename Tail::Operands operands[BN / 8];
  if constexpr (!HAS_OPERANDS) {
#pragma unroll
    for (int c = 0; c < BN / 8; ++c)
      tail.fetch(0, n0 + c * 8 + t * 2 < N ? n0 + c * 8 + t * 2 : 0, operands[c]);
  }
  // Four tiles of sixteen pixels at a time, one for each warp of a group.
  for (int first = warp / 4 * 4; first < TH * TX; first += 4 * GROUPS) {
    const bool mine = first + warp % 4 < TH * TX;
    const int number = mine ? first + warp % 4 : 0, h = number / TX, column = number % TX * 16;
    u32 a[KP / 16][4];
#pragma unroll
    for (int s = 0; s < KP / 16; ++s)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Behind the last row weights are zero.
        const int k = s * 16 + half * 8 + t * 2, row = k / KW < KROWS ? k / KW : 0;
        const u32* x = xs + (row / KH * ROWS_IN + row % KH + h * SH) * WORDS + column + g + k % KW / 2;
        a[s][2 * half] = x[0];
        a[s][2 * half + 1] = x[8];
      }
    float sum[BN / 2] = {};
    multiply_begin();
#pragma unroll
    for (int s = 0; s < KP / 16; ++s) MULTIPLY(sum, a[s], tile_operand(base + s / 4 * BN * 128) + s % 4 * 2);
    multiply_commit();
    multiply_wait<0>();
    multiply_done(sum);
    // Through shared memory, so that whole vectors of channels are stored.
    const idx oy = tile.oy0 + h;
    const auto place_of = [&](idx ox, idx channel) {
      const bool inside = mine && oy < e.out_height && ox < e.out_width;
      return inside ? place((tile.image * e.out_height + oy) * e.out_width + ox, channel) : (idx)-1;
    };
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const idx ox = tile.ox0 + column + g + 8 * r;
#pragma unroll
      for (int c = 0; c < BN / 8; ++c) {
        float v[2] = {sum[4 * c + 2 * r], sum[4 * c + 2 * r + 1]};
        if constexpr (HAS_OPERANDS) {
          const idx channel = n0 + c * 8 + t * 2, at = place_of(ox, channel);
          tail.fetch(at < 0 ? 0 : at, at < 0 ? 0 : channel, operands[c]);
        }
        tail.apply(operands[c], v);
        put_pair(strip + (g + 8 * r) * PITCH + c * 8 + t * 2, v);
      }
    }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < 16 * (BN / V); i += 32) {
      const int row = i / (BN / V), channel = i % (BN / V) * V;
      const idx at = place_of(tile.ox0 + column + row, n0 + channel);
      u32 w[V * sizeof(R) / 4];
      load_words(strip + row * PITCH + channel, w);
      if (at >= 0) store_words(result + at, w);
    }
    __syncwarp();
  }
}
