// SPDX-License-Identifier: Apache-2.0
//
// Bytes, and pairs of 16-bit integers, as kernels of quantised layers need them; to be included after
// vec_avx2.h. vec_integer_avx512.h has the same words in 512 bits.
#pragma once

#include <cstring>

namespace {

using IntVec = __m256i;  // kWidth sums of 32 bits, pairs of 16 bits, or quads of bytes

inline IntVec izero() {
  return _mm256_setzero_si256();
}
inline IntVec iload(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline void istore(void* p, IntVec x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), x);
}
// The four bytes at p in all lanes.
inline IntVec ibroadcast(const void* p) {
  int32_t four;
  std::memcpy(&four, p, sizeof four);
  return _mm256_set1_epi32(four);
}
// sum + x.first * w.first + x.second * w.second, of 16-bit integers. Exact: their products do not saturate.
inline IntVec idot_pairs(IntVec x, IntVec w, IntVec sum) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
}
inline Vec to_floats(IntVec x) {
  return _mm256_cvtepi32_ps(x);
}
// 2 * kWidth bytes, less `zero`, as 16-bit integers.
inline IntVec widen_bytes(const uint8_t* p, IntVec zero) {
  return _mm256_sub_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), zero);
}
inline IntVec iset16(int value) {
  return _mm256_set1_epi16(static_cast<int16_t>(value));
}
inline IntVec iadd16(IntVec a, IntVec b) {
  return _mm256_add_epi16(a, b);
}
// Byte i of `first` and of `second` as pair i.
inline IntVec pair_bytes(const uint8_t* first, const uint8_t* second) {
  const __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first)),
                b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(second));
  return _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
}
inline Vec load_bytes(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline IntVec imax_bytes(IntVec a, IntVec b) {
  return _mm256_max_epu8(a, b);
}
inline IntVec iset32(int32_t value) {
  return _mm256_set1_epi32(value);
}
// As bytes, saturated.
inline void store_saturated(uint8_t* p, __m256i i) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
// The nearest integers, half to even, plus `add`; as bytes, saturated.
inline void store_nearest(uint8_t* p, Vec x, IntVec add) {
  store_saturated(p, _mm256_add_epi32(_mm256_cvtps_epi32(x), add));
}
// Two vectors side by side, the sums saturated as 16 bits on the way.
inline void store_nearest_two(uint8_t* p, Vec x, Vec y, int zero) {
  const __m256i words = _mm256_adds_epi16(_mm256_packs_epi32(_mm256_cvtps_epi32(x), _mm256_cvtps_epi32(y)),
                                          _mm256_set1_epi16(static_cast<int16_t>(zero)));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, words), order);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(bytes));
}
// The nearest bytes; NaN gives 0.
inline void store_bytes(uint8_t* p, Vec x) {
  store_saturated(p, _mm256_cvtps_epi32(vmin(vmax(x, vzero()), vset(255))));
}

inline IntVec iand(IntVec a, IntVec b) {
  return _mm256_and_si256(a, b);
}
// Of 32 bits, zeros from above.
template <int kBits>
inline IntVec ishift_right(IntVec x) {
  return _mm256_srli_epi32(x, kBits);
}
// kWidth numbers of FP16.
inline Vec load_halves(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

}  // namespace
