// SPDX-License-Identifier: Apache-2.0
//
// The words of vec_integer_avx2.h in 512 bits; to be included after vec_avx512.h.
#pragma once

#include <cstring>

namespace {

using IntVec = __m512i;

inline IntVec izero() {
  return _mm512_setzero_si512();
}
inline IntVec iload(const void* p) {
  return _mm512_loadu_si512(p);
}
inline void istore(void* p, IntVec x) {
  _mm512_storeu_si512(p, x);
}
inline IntVec ibroadcast(const void* p) {
  int32_t four;
  std::memcpy(&four, p, sizeof four);
  return _mm512_set1_epi32(four);
}
inline IntVec idot_pairs(IntVec x, IntVec w, IntVec sum) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(x, w));
}
inline Vec to_floats(IntVec x) {
  return _mm512_cvtepi32_ps(x);
}
inline IntVec widen_bytes(const uint8_t* p, IntVec zero) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_sub_epi16(_mm512_cvtepu8_epi16(bytes), zero);
}
inline IntVec iset16(int value) {
  return _mm512_set1_epi16(static_cast<int16_t>(value));
}
inline IntVec iadd16(IntVec a, IntVec b) {
  return _mm512_add_epi16(a, b);
}
inline IntVec pair_bytes(const uint8_t* first, const uint8_t* second) {
  const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first)),
                b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second));
  return _mm512_cvtepu8_epi16(_mm256_set_m128i(_mm_unpackhi_epi8(a, b), _mm_unpacklo_epi8(a, b)));
}
inline Vec load_bytes(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline IntVec imax_bytes(IntVec a, IntVec b) {
  return _mm512_max_epu8(a, b);
}
inline IntVec iset32(int32_t value) {
  return _mm512_set1_epi32(value);
}
inline void store_nearest(uint8_t* p, Vec x, IntVec add) {
  const __m512i i = _mm512_max_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(x), add), _mm512_setzero_si512());
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(i));
}
inline void store_nearest_two(uint8_t* p, Vec x, Vec y, int zero) {
  const __m512i words = _mm512_adds_epi16(_mm512_packs_epi32(_mm512_cvtps_epi32(x), _mm512_cvtps_epi32(y)),
                                          _mm512_set1_epi16(static_cast<int16_t>(zero)));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 4, 8, 12, 1, 5, 9, 13);
  const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(words, words));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(bytes));
}
inline void store_bytes(uint8_t* p, Vec x) {
  const __m512i i = _mm512_cvtps_epi32(vmin(vmax(x, vzero()), vset(255)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(i));
}

inline IntVec iand(IntVec a, IntVec b) {
  return _mm512_and_si512(a, b);
}
template <int kBits>
inline IntVec ishift_right(IntVec x) {
  return _mm512_srli_epi32(x, kBits);
}
inline Vec load_halves(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

}  // namespace
