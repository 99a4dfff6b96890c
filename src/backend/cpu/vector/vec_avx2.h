// SPDX-License-Identifier: Apache-2.0
//
// The vector vocabulary of the kernels, 256 bits: the words of vec_avx512.h (which explains them) for AVX2 +
// FMA + F16C.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

using Vec = __m256;
using Lane = float;
using Mask = __m256;  // all bits of a lane set: true
constexpr int64_t kWidth = 8;
constexpr int kVectorRegisters = 16;

inline __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline Vec vset(float x) {
  return _mm256_set1_ps(x);
}
inline Vec vzero() {
  return _mm256_setzero_ps();
}
inline Vec vload(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void vstore(float* p, Vec x) {
  _mm256_storeu_ps(p, x);
}
inline Vec vloadn(const float* p, int64_t n) {
  return _mm256_maskload_ps(p, first_lanes(n));
}
inline void vstoren(float* p, Vec x, int64_t n) {
  _mm256_maskstore_ps(p, first_lanes(n), x);
}

inline Vec fmadd(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Vec fnmadd(Vec a, Vec b, Vec c) {
  return _mm256_fnmadd_ps(a, b, c);
}
inline Vec vmin(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
inline Vec vmax(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
inline Vec vabs(Vec x) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}
inline Vec vsqrt(Vec x) {
  return _mm256_sqrt_ps(x);
}
// 1 / x for 2^-126 <= |x| <= 2^126.
inline Vec vreciprocal(Vec x) {
  return vset(1) / x;
}
inline Vec vfloor(Vec x) {
  return _mm256_round_ps(x, 0x09);
}
inline Vec vceil(Vec x) {
  return _mm256_round_ps(x, 0x0a);
}
inline Vec vround(Vec x) {
  return _mm256_round_ps(x, 0x08);
}
inline Vec vand(Vec a, Vec b) {
  return _mm256_and_ps(a, b);
}
inline Vec vor(Vec a, Vec b) {
  return _mm256_or_ps(a, b);
}
inline Vec vxor(Vec a, Vec b) {
  return _mm256_xor_ps(a, b);
}

inline Mask vlt(Vec a, Vec b) {
  return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
inline Mask vle(Vec a, Vec b) {
  return _mm256_cmp_ps(a, b, _CMP_LE_OQ);
}
inline Mask veq(Vec a, Vec b) {
  return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
inline Mask vne(Vec a, Vec b) {
  return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ);
}
inline Mask visnan(Vec a) {
  return _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
}
inline Mask mask_and(Mask a, Mask b) {
  return _mm256_and_ps(a, b);
}
inline Mask mask_or(Mask a, Mask b) {
  return _mm256_or_ps(a, b);
}
inline Mask mask_xor(Mask a, Mask b) {
  return _mm256_xor_ps(a, b);
}
inline bool mask_any(Mask m) {
  return _mm256_movemask_ps(m) != 0;
}
inline Vec vselect(Mask m, Vec yes, Vec no) {
  return _mm256_blendv_ps(no, yes, m);
}
inline Vec vkeepn(Vec x, int64_t n, Vec rest) {
  return vselect(_mm256_castsi256_ps(first_lanes(n)), x, rest);
}
// table[the low four bits of each lane].
inline Vec vlookup16(const float* table, Vec bits) {
  const __m256i index = _mm256_castps_si256(bits);
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(_mm256_load_ps(table), index),
                          _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), index),
                          _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
}

inline Vec power_of_two(__m256i n) {  // n in [-126, 127]
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
inline Vec vscale2(Vec x, Vec n) {
  // Two factors, so that results down to the denormals and up to infinity come out right for |n| <= 252.
  const __m256i i = _mm256_cvtps_epi32(vmax(vmin(n, vset(252)), vset(-252)));
  const __m256i half = _mm256_srai_epi32(i, 1);
  return x * power_of_two(half) * power_of_two(_mm256_sub_epi32(i, half));
}
inline void split_log2(Vec x, Vec& m, Vec& e) {
  const Mask tiny = vlt(x, vset(1.17549435e-38f));  // denormals are scaled up first
  x = vselect(tiny, x * vset(16777216.0f), x);
  // Adding 2^-2 of the mantissa's range to the exponent field moves the cut from 1 to 0.75: m in [0.75, 1.5).
  const __m256i shifted = _mm256_sub_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(0x3f400000));
  e = _mm256_cvtepi32_ps(_mm256_srai_epi32(shifted, 23)) - vand(tiny, vset(24));
  m = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_and_si256(shifted, _mm256_set1_epi32(0x007fffff)),
                                           _mm256_set1_epi32(0x3f400000)));
}

inline Vec widen_bf16(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
inline __m128i load_halves(const uint16_t* p, int64_t n) {
  alignas(16) uint16_t part[8] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return _mm_load_si128(reinterpret_cast<const __m128i*>(part));
}
inline void store_halves(uint16_t* p, __m128i x, int64_t n) {
  alignas(16) uint16_t part[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(part), x);
  for (int64_t i = 0; i < n; ++i) p[i] = part[i];
}
inline Vec load_bf16(const uint16_t* p) {
  return widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Vec loadn_bf16(const uint16_t* p, int64_t n) {
  return widen_bf16(load_halves(p, n));
}
inline __m128i to_bf16(Vec x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256i y =
      _mm256_castps_si256(vselect(visnan(x), _mm256_castsi256_ps(quiet), _mm256_castsi256_ps(rounded)));
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(y, y), 0x08));
}
inline void store_bf16(uint16_t* p, Vec x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_bf16(x));
}
inline void storen_bf16(uint16_t* p, Vec x, int64_t n) {
  store_halves(p, to_bf16(x), n);
}
inline Vec load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline Vec loadn_f16(const uint16_t* p, int64_t n) {
  return _mm256_cvtph_ps(load_halves(p, n));
}
inline void store_f16(uint16_t* p, Vec x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, 0));
}
inline void storen_f16(uint16_t* p, Vec x, int64_t n) {
  store_halves(p, _mm256_cvtps_ph(x, 0), n);
}

inline float hsum(Vec x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
inline float hmax(Vec x) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}
inline float hmin(Vec x) {
  __m128 s = _mm_min_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_min_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_min_ss(s, _mm_shuffle_ps(s, s, 1)));
}

}  // namespace
