// SPDX-License-Identifier: Apache-2.0
//
// Attention's parts for AVX512-BF16. Scores of a tile of queries lie in L1 or L2 for all keys, so each is
// read twice (maximum, then exponential) and written once as a BF16 weight of at most 1; sums are taken of
// the rounded weights, so that rounding does not shift the mean.
//
// Instructions per 16 scores: about 19, half of them the exponential. Reached (Emerald Rapids): 32 rows of
// 128 keys with a mask 1.5 us, as long as AMX takes for their products.
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/attention/attention_bf16_table.h"

namespace lathe::cpu {
namespace {

constexpr float kLog2e = 1.44269504f;

// 2^t for t <= 0; 2^-125 stands for everything below (a denormal result would take 150 cycles).
inline Vec power_of_two(Vec t) {
  return vexp2_bf16(vmax(vset(-125), t));
}

// What forbids a key with a finite number stays finite times log2(e): a row with no other keys weighs them
// all alike. Minus infinity and NaN stay.
inline Vec stays_finite(Vec mask) {
  return vselect(vlt(mask, vset(-3.40282347e38f)), mask, vmax(vset(-0x1p100f), mask));
}

inline __m256i rounded(Vec x) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
}

// Scaled, masked scores take the place of the scores; then 32 weights at a time.
void weigh_row(const ScoreTile& t, int64_t r) {
  float* scores = t.scores + r * t.stride;
  uint16_t* weights = t.weights + r * t.padded;
  const int64_t visible = t.causal && t.first_query + r + 1 < t.keys ? t.first_query + r + 1 : t.keys;
  const float* mask = t.mask ? t.mask + r * t.mask_stride : nullptr;
  const Vec lowest = vset(-__builtin_inff()), scale = vset(t.scale * kLog2e), log2e = vset(kLog2e);
  const int64_t whole = visible / kWidth * kWidth;
  const Mask last = first_lanes(visible - whole);
  Vec best = lowest;
  if (mask) {
    for (int64_t i = 0; i < whole; i += kWidth) {
      const Vec x = fmadd(stays_finite(vload(mask + i)), log2e, vload(scores + i) * scale);
      vstore(scores + i, x);
      best = vmax(best, x);
    }
  } else {
    for (int64_t i = 0; i < whole; i += kWidth) {
      const Vec x = vload(scores + i) * scale;
      vstore(scores + i, x);
      best = vmax(best, x);
    }
  }
  if (last != 0) {
    Vec x = vload(scores + whole) * scale;
    if (mask) x = fmadd(stays_finite(vloadn(mask + whole, visible - whole)), log2e, x);
    x = vselect(last, x, lowest);
    vstore(scores + whole, x);
    best = vmax(best, x);
  }
  float highest = hmax(best);
  // The maximum passes over NaN when numbers follow it; a row of nothing else is not one whose keys are all
  // forbidden.
  if (highest == -__builtin_inff())
    for (int64_t k = 0; k < visible; ++k)
      if (scores[k] != scores[k]) highest = scores[k];
  int64_t i = 0;
  t.inverse_sums[r] = 0;
  if (highest != -__builtin_inff()) {
    const Vec top = vset(highest);
    Vec even = vzero(), odd = vzero();
    const auto add = [&](__m512i pairs) {
      _mm512_storeu_si512(weights + i, pairs);
      even = even + _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
      odd =
          odd + _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
    };
    for (; i + 2 * kWidth <= visible; i += 2 * kWidth)
      add(reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(power_of_two(vload(scores + i + kWidth) - top),
                                                        power_of_two(vload(scores + i) - top))));
    if (i < visible) {
      const int64_t left = visible - i;
      const auto part = [&](int64_t at, int64_t lanes) {
        if (lanes <= 0) return vzero();
        const Vec e = power_of_two(vload(scores + i + at) - top);
        return lanes < kWidth ? vselect(first_lanes(lanes), e, vzero()) : e;
      };
      add(reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(part(kWidth, left - kWidth), part(0, left))));
      i += 2 * kWidth;
    }
    t.inverse_sums[r] = 1 / hsum(even + odd);
  }
  for (; i < t.padded; i += 2 * kWidth) _mm512_storeu_si512(weights + i, _mm512_setzero_si512());
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
