// SPDX-License-Identifier: Apache-2.0
//
// Attention's parts for AVX512-BF16. Scores of a tile of queries lie in L1 or L2 for all keys, so each is read twice (maximum,
// then exponential) and written once as a BF16 weight of at most 1; sums are taken of the rounded weights, so that rounding
// does not shift the mean.
//
// Operations per score: about 14, most of them the exponential; at 128 keys of width 64 that is a fifth of the products' time.
#include "backend/cpu/kernels/vec_avx512.h"
//
#include "backend/cpu/kernels/attention_bf16_table.h"

namespace lathe::cpu {
namespace {

constexpr float kLog2e = 1.44269504f;

// 2^t for t <= 0; 2^-126 stands for everything below.
inline Vec power_of_two(Vec t) {
  t = vmax(vset(-126), t);
  const Vec n = vround(t);
  const Vec r = t - n;
  Vec p = vset(1.327647480e-03f);  // 2^r on [-0.5, 0.5], error 8e-8
  p = fmadd(p, r, vset(9.675541371e-03f));
  p = fmadd(p, r, vset(5.550713265e-02f));
  p = fmadd(p, r, vset(2.402211972e-01f));
  p = fmadd(p, r, vset(6.931469671e-01f));
  p = fmadd(p, r, vset(1.000000072e+00f));
  return vscale2(p, n);
}

inline __m256i rounded(Vec x) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
}

void weigh_row(const ScoreTile& t, int64_t r) {
  const float* scores = t.scores + r * t.stride;
  uint16_t* weights = t.weights + r * t.padded;
  const int64_t visible = t.causal && t.first_query + r + 1 < t.keys ? t.first_query + r + 1 : t.keys;
  const float* mask = t.mask ? t.mask + r * t.mask_stride : nullptr;
  const Vec lowest = vset(-__builtin_inff());
  const Vec scale = vset(t.scale * kLog2e), log2e = vset(kLog2e);
  const auto score_at = [&](int64_t i) {
    const int64_t lanes = visible - i < kWidth ? visible - i : kWidth;
    Vec x = vload(scores + i) * scale;
    if (mask) x = fmadd(vloadn(mask + i, lanes), log2e, x);
    return lanes == kWidth ? x : vselect(first_lanes(lanes), x, lowest);
  };
  Vec best = lowest;
  for (int64_t i = 0; i < visible; i += kWidth) best = vmax(best, score_at(i));
  const float top = hmax(best);
  int64_t i = 0;
  t.inverse_sums[r] = 0;
  if (top > -__builtin_inff()) {
    Vec sum = vzero();
    for (; i < visible; i += kWidth) {
      const int64_t lanes = visible - i < kWidth ? visible - i : kWidth;
      Vec e = power_of_two(score_at(i) - vset(top));
      if (lanes < kWidth) e = vselect(first_lanes(lanes), e, vzero());
      const __m256i bits = rounded(e);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights + i), bits);
      sum = sum + load_bf16(weights + i);
    }
    t.inverse_sums[r] = 1 / hsum(sum);
  }
  for (; i < t.padded; i += kWidth)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights + i), _mm256_setzero_si256());
}

void weigh(const ScoreTile& tile) {
  for (int64_t r = 0; r < tile.rows; ++r) weigh_row(tile, r);
}

void pack_values(const uint16_t* rows, int64_t stride, int64_t count, int64_t columns, uint16_t* out) {
  const auto load = [&](int64_t row, int64_t column) {
    const int64_t lanes = columns - column < kWidth ? columns - column : kWidth;
    if (row >= count || lanes <= 0) return _mm256_setzero_si256();
    return _mm256_maskz_loadu_epi16(first_lanes(lanes), rows + row * stride + column);
  };
  for (int64_t i = 0; i < count; i += 2)
    for (int64_t c = 0; c < 2 * kWidth; c += kWidth, out += 2 * kWidth) {
      const __m512i low = _mm512_cvtepu16_epi32(load(i, c)), high = _mm512_cvtepu16_epi32(load(i + 1, c));
      _mm512_storeu_si512(out, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
}

void store(const float* sums, int64_t stride, int64_t rows, int64_t columns, const float* factors,
           uint16_t* out, int64_t out_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const Vec factor = vset(factors[r]);
    for (int64_t c = 0; c < columns; c += kWidth) {
      const __m256i bits = rounded(vload(sums + r * stride + c) * factor);
      uint16_t* to = out + r * out_stride + c;
      if (columns - c >= kWidth)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bits);
      else
        _mm256_mask_storeu_epi16(to, first_lanes(columns - c), bits);
    }
  }
}

constexpr AttentionBf16Table kTable = {.weigh = weigh, .pack_values = pack_values, .store = store};

}  // namespace

const AttentionBf16Table& attention_bf16_table() {
  return kTable;
}

}  // namespace lathe::cpu
