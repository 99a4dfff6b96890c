// SPDX-License-Identifier: Apache-2.0
//
// Attention with plain multiply-adds; behind attention.cuh.
//
// The generator writes in front:
//   D, DV  elements of a row of queries and keys, and of values

//# kAttentionFma
// 256 threads; each warp has four of the block's 32 rows from q0 on, a lane one of the 32 keys of a tile, and
// every 32nd column of the result. Keys from `end` on are not needed.
template <class T, class Masked, class Finish>
DEV void attend_rows(const Rows<T>& query, const Rows<T>& key, const Rows<T>& value, idx q0, idx end,
                     Masked masked, Finish finish) {
  constexpr int L = (DV + 31) / 32;
  float* qs = (float*)shared_memory();
  float* ks = qs + 32 * D;
  float* vs = ks + 32 * (D + 1);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < 32 * D; i += 256) {
    const idx row = q0 + i / D;
    qs[i] = row < query.count ? widen(query.first[row * query.stride + i % D]) * SCALE : 0.f;
  }
  // Of each row: the largest score so far, the sum of exponentials, and the result but for that sum.
  float top[4], sum[4], out[4][L];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    top[r] = -infinity();
    sum[r] = 0;
#pragma unroll
    for (int l = 0; l < L; ++l) out[r][l] = 0;
  }
  for (idx k0 = 0; k0 < end; k0 += 32) {
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * D; i += 256) {
      const idx row = k0 + i / D;
      ks[i / D * (D + 1) + i % D] = row < key.count ? widen(key.first[row * key.stride + i % D]) : 0.f;
    }
    for (int i = threadIdx.x; i < 32 * DV; i += 256) {
      const idx row = k0 + i / DV;
      vs[i] = row < key.count ? widen(value.first[row * value.stride + i % DV]) : 0.f;
    }
    __syncthreads();
    float score[4] = {};
    for (int i = 0; i < D; ++i) {
      const float k = ks[lane * (D + 1) + i];
#pragma unroll
      for (int r = 0; r < 4; ++r) score[r] += qs[(warp * 4 + r) * D + i] * k;
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      score[r] = masked(score[r], q0 + warp * 4 + r, k0 + lane);
      const float next = fmaxf(top[r], warp_reduce(score[r], MaxOp{}));
      const float base = next == -infinity() ? 0.f : next;
      const float shrink = exp2f(top[r] - base);
      top[r] = next;
      score[r] = exp2f(score[r] - base);
      sum[r] = sum[r] * shrink + warp_reduce(score[r], SumOp{});
#pragma unroll
      for (int l = 0; l < L; ++l) out[r][l] *= shrink;
    }
    for (int j = 0; j < 32; ++j) {
      float p[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) p[r] = shuffle(score[r], j);
#pragma unroll
      for (int l = 0; l < L; ++l) {
        const float v = lane + l * 32 < DV ? vs[j * DV + lane + l * 32] : 0.f;
#pragma unroll
        for (int r = 0; r < 4; ++r) out[r][l] += p[r] * v;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const idx row = q0 + warp * 4 + r;
#pragma unroll
    for (int l = 0; l < L; ++l)
      if (row < query.count && lane + l * 32 < DV) {
        const float v[1] = {sum[r] == 0 ? 0.f : out[r][l] / sum[r]};
        finish(row, lane + l * 32, v);
      }
  }
}
