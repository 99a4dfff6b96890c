// SPDX-License-Identifier: Apache-2.0
//
// Attention on tensor cores (mma.sync), over tiles of keys; behind attention.cuh.
//
// The generator writes in front:
//   D, DV                      elements of a row of queries and keys, and of values
//   DP, DVP                    those padded to 16
//   WARPS                      of a block, sixteen rows each
//   KEYS                       of a tile
//   MASK                       how scores are masked (attention.cuh)
//   WHOLE_TILES                no tile of keys is cut off at the end
//   V                          results that finish() takes, 1 or 2
//   MULTIPLY(sums, a, b0, b1)  16 x 16 times 16 x 8 elements
//   PACK(x, y)                 two numbers in 16 bits

//# kAttentionMma
constexpr int KEY_PITCH = DP + 8, VALUE_PITCH = DVP + 8;
constexpr bool KEPT = DP <= 128;  // a warp's queries stay in registers

// Starts to copy COUNT rows from `first` on; rows behind the end and padding become zeros.
template <int WIDTH, int PADDED, int COUNT, class T>
DEV void copy_rows(u16* to, const Rows<T>& from, idx first) {
  constexpr int kChunks = PADDED / 8;
#pragma unroll
  for (int i = threadIdx.x; i < COUNT * kChunks; i += WARPS * 32) {
    const int row = i / kChunks, column = i % kChunks * 8;
    const bool inside = first + row < from.count && column < WIDTH;
    const T* source = from.first + (inside ? (first + row) * from.stride + column : 0);
    copy_async(to + row * (PADDED + 8) + column, source, inside ? 16 : 0);
  }
}

// The mask of what a thread has of its warp's 16 rows and a tile's keys, in the layout of tensor cores: of
// rows `row` and row + 8 (`half` 1) the keys key + 8 j + c, c = 0 and 1, whose score is in score[j][2 half +
// c].
struct TileMask {
  idx row, key;
  float bias[MASK == MASK_OF_PAIRS ? 2 : 1][KEYS / 8][2];

  // What the tile reads of the mask, in front of the product that hides the wait.
  template <class Masked, class MaskPair> DEV void load(Masked masked, MaskPair mask_pair) {
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
      if constexpr (MASK == MASK_OF_PAIRS) {
#pragma unroll
        for (int half = 0; half < 2; ++half) mask_pair(row + half * 8, key + j * 8, bias[half][j]);
      } else if constexpr (MASK == MASK_OF_KEYS) {
#pragma unroll
        for (int c = 0; c < 2; ++c) bias[0][j][c] = masked(0.f, 0, key + j * 8 + c);
      }
  }
  // A product of a query and a key as a score, of `keys` keys in all.
  template <class Masked> DEV float score(float x, int half, int j, int c, idx keys, Masked masked) const {
    const idx at = key + j * 8 + c;
    if constexpr (MASK == NO_MASK) return x * SCALE;
    if constexpr (MASK == MASK_OF_KEYS) return x * SCALE + bias[0][j][c];
    if constexpr (MASK == MASK_OF_PAIRS)
      return !WHOLE_TILES && at >= keys ? -infinity() : x * SCALE + mask_exponent(bias[half][j][c]);
    return masked(x * SCALE, row + half * 8, at);
  }
};

// The block's rows from q0 on, sixteen for each warp, over the keys up to `end`.
template <class T, class Masked, class MaskPair, class Finish>
DEV void attend_rows(const Rows<T>& query, const Rows<T>& key, const Rows<T>& value, idx q0, idx end,
                     Masked masked, MaskPair mask_pair, Finish finish) {
  u16* qs = (u16*)shared_memory();
  u16* ks = qs + WARPS * 16 * KEY_PITCH;
  u16* vs = ks + 2 * KEYS * KEY_PITCH;  // two tiles of each
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = lane / 8, g = lane / 4, t = lane % 4;
  const idx tiles = (end + KEYS - 1) / KEYS, row = q0 + warp * 16 + g;
  const auto fetch = [&](idx tile) {
    copy_rows<D, DP, KEYS>(ks + (tile & 1) * KEYS * KEY_PITCH, key, tile * KEYS);
    copy_rows<DV, DVP, KEYS>(vs + (tile & 1) * KEYS * VALUE_PITCH, value, tile * KEYS);
    copy_commit();
  };
  copy_rows<D, DP, WARPS * 16>(qs, query, q0);
  fetch(0);
  // Of each row: the result but for the sum of exponentials, the largest score so far, and that sum.
  float out[DVP / 8][4] = {}, top[2] = {-infinity(), -infinity()}, sum[2] = {};
  const u16* q_row = qs + (warp * 16 + m % 2 * 8 + lane % 8) * KEY_PITCH + m / 2 * 8;
  u32 q[KEPT ? DP / 16 : 1][4];
  for (idx tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      fetch(tile + 1);
      copy_wait<1>();
    } else {
      copy_wait<0>();
    }
    __syncthreads();
    if constexpr (KEPT) {
      if (tile == 0) {
#pragma unroll
        for (int i = 0; i < DP / 16; ++i) load_matrix(q[i], q_row + i * 16);
      }
    }
    TileMask mask{row, tile * KEYS + t * 2};
    mask.load(masked, mask_pair);
    float score[KEYS / 8][4] = {};
    const u16* k_row = ks + (tile & 1) * KEYS * KEY_PITCH + (m / 2 * 8 + lane % 8) * KEY_PITCH + m % 2 * 8;
#pragma unroll
    for (int i = 0; i < DP / 16; ++i) {
      if constexpr (!KEPT) load_matrix(q[0], q_row + i * 16);
      const auto& a = q[KEPT ? i : 0];
#pragma unroll
      for (int j = 0; j < KEYS / 16; ++j) {
        u32 r[4];
        load_matrix(r, k_row + j * 16 * KEY_PITCH + i * 16);
        MULTIPLY(score[2 * j], a, r[0], r[1]);
        MULTIPLY(score[2 * j + 1], a, r[2], r[3]);
      }
    }
    // Scores become probabilities but for the sum; what there is shrinks when a larger score comes.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float next = top[half];
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& x = score[j][half * 2 + c];
          x = mask.score(x, half, j, c, key.count, masked);
          next = fmaxf(next, x);
        }
      next = row_max(next);
      const float base = next == -infinity() ? 0.f : next, shrink = power_of_two(top[half] - base);
      top[half] = next;
      float part = 0;
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& x = score[j][half * 2 + c];
          x = power_of_two(x - base);
          part += x;
        }
      sum[half] = sum[half] * shrink + part;
#pragma unroll
      for (int j = 0; j < DVP / 8; ++j) {
        out[j][half * 2] *= shrink;
        out[j][half * 2 + 1] *= shrink;
      }
    }
    // They already have the layout of the left operand of the product with the values.
    const u16* v_row =
        vs + (tile & 1) * KEYS * VALUE_PITCH + (m % 2 * 8 + lane % 8) * VALUE_PITCH + m / 2 * 8;
#pragma unroll
    for (int i = 0; i < KEYS / 16; ++i) {
      const u32 a[4] = {PACK(score[2 * i][0], score[2 * i][1]), PACK(score[2 * i][2], score[2 * i][3]),
                        PACK(score[2 * i + 1][0], score[2 * i + 1][1]),
                        PACK(score[2 * i + 1][2], score[2 * i + 1][3])};
#pragma unroll
      for (int j = 0; j < DVP / 16; ++j) {
        u32 r[4];
        load_matrix_transposed(r, v_row + i * 16 * VALUE_PITCH + j * 16);
        MULTIPLY(out[2 * j], a, r[0], r[1]);
        MULTIPLY(out[2 * j + 1], a, r[2], r[3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] = row_sum(sum[half]);
    const float factor = sum[half] == 0 ? 0.f : 1.f / sum[half];
#pragma unroll
    for (int j = 0; j < DVP / 8; ++j) {
      const float pair[2] = {out[j][half * 2] * factor, out[j][half * 2 + 1] * factor};
      const int column = j * 8 + t * 2;
      if (row + half * 8 >= query.count || column >= DV) continue;
      if constexpr (V == 2) {
        finish(row + half * 8, column, pair);
      } else {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float one[1] = {pair[c]};
          finish(row + half * 8, column + c, one);
        }
      }
    }
  }
}
