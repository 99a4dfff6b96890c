// SPDX-License-Identifier: Apache-2.0
//
// Attention in double: a warp for each row of queries (codegen_exact_attention.cpp).
//
// The generator writes in front:
//   D, DV                 elements of a row of queries and keys, and of values
//   SCALE                 of scores
//   query, key, value     of the head: the row of queries, and the first rows of keys and of values
//   KEYS, KEY_ROW, VALUE_ROW   rows, and numbers from one to the next
//   masked(score, at)     the score of key `at` with the mask, or -infinity
//   finish(column, v)     takes a result

//# kExactAttention
// A lane has one of 32 keys at a time, and every 32nd column of the result; the largest score so far, the sum
// of exponentials and the result but for that sum go from keys to keys.
constexpr int L = (DV + 31) / 32;
double* const weights = (double*)shared_memory() + threadIdx.x / 32 * 32;
double top = -(double)infinity(), sum = 0, out[L] = {};
for (idx k0 = 0; k0 < KEYS; k0 += 32) {
  const idx at = k0 + lane;
  double score = -(double)infinity();
  if (at < KEYS) {
    score = 0;
    for (int i = 0; i < D; ++i) score += query[i] * key[at * KEY_ROW + i];
    score = masked(score * SCALE, at);
  }
  const double next = wide_max(top, joined_lanes(score, wide_max));
  const double base = next == -(double)infinity() ? 0. : next, shrink = exp(top - base);
  top = next;
  const double weight = exp(score - base);
  sum = sum * shrink + joined_lanes(weight, wide_sum);
  __syncwarp();
  weights[lane] = weight;
  __syncwarp();
#pragma unroll
  for (int l = 0; l < L; ++l) {
    out[l] *= shrink;
    for (int j = 0; j < 32 && k0 + j < KEYS; ++j)
      if (lane + l * 32 < DV) out[l] += weights[j] * value[(k0 + j) * VALUE_ROW + lane + l * 32];
  }
}
#pragma unroll
for (int l = 0; l < L; ++l)
  if (lane + l * 32 < DV) {
    double v[1] = {sum == 0 ? 0. : out[l] / sum};
    finish(lane + l * 32, v);
  }
