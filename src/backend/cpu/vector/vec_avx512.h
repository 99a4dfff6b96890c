// SPDX-License-Identifier: Apache-2.0
//
// The vector vocabulary of the kernels, 512 bits. vec_avx2.h says the same words in 256 bits, so a kernel is
// written once
// (<family>.inc) and compiled per instruction set (<family>_avx2.cpp, <family>_avx512.cpp).
//
// Everything has internal linkage: code compiled for one instruction set can never be picked for another by
// the linker.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

using Vec = __m512;
using Lane = float;
using Mask = __mmask16;
constexpr int64_t kWidth = 16;
constexpr int kVectorRegisters = 32;

inline Mask first_lanes(int64_t n) {
  return static_cast<Mask>((1u << n) - 1);
}

inline Vec vset(float x) {
  return _mm512_set1_ps(x);
}
inline Vec vzero() {
  return _mm512_setzero_ps();
}
inline Vec vload(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void vstore(float* p, Vec x) {
  _mm512_storeu_ps(p, x);
}
// The first n lanes (0 <= n <= kWidth); others are zero, memory beyond is not touched.
inline Vec vloadn(const float* p, int64_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
inline void vstoren(float* p, Vec x, int64_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), x);
}

inline Vec fmadd(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}  // a * b + c
inline Vec fnmadd(Vec a, Vec b, Vec c) {
  return _mm512_fnmadd_ps(a, b, c);
}  // c - a * b
// The second operand when one is NaN.
inline Vec vmin(Vec a, Vec b) {
  return _mm512_min_ps(a, b);
}
inline Vec vmax(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
inline Vec vabs(Vec x) {
  return _mm512_abs_ps(x);
}
inline Vec vsqrt(Vec x) {
  return _mm512_sqrt_ps(x);
}
// 1 / x for 2^-126 <= |x| <= 2^126, to 2^-28 of the quotient: half the cycles of a division.
inline Vec vreciprocal(Vec x) {
  const Vec y = _mm512_rcp14_ps(x);
  return y * fnmadd(x, y, vset(2));
}
inline Vec vfloor(Vec x) {
  return _mm512_roundscale_ps(x, 0x09);
}
inline Vec vceil(Vec x) {
  return _mm512_roundscale_ps(x, 0x0a);
}
inline Vec vround(Vec x) {
  return _mm512_roundscale_ps(x, 0x08);
}  // half to even
inline Vec vand(Vec a, Vec b) {
  return _mm512_and_ps(a, b);
}
inline Vec vor(Vec a, Vec b) {
  return _mm512_or_ps(a, b);
}
inline Vec vxor(Vec a, Vec b) {
  return _mm512_xor_ps(a, b);
}

inline Mask vlt(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
inline Mask vle(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
inline Mask veq(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
inline Mask vne(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
}
inline Mask visnan(Vec a) {
  return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
inline Mask mask_and(Mask a, Mask b) {
  return static_cast<Mask>(a & b);
}
inline Mask mask_or(Mask a, Mask b) {
  return static_cast<Mask>(a | b);
}
inline Mask mask_xor(Mask a, Mask b) {
  return static_cast<Mask>(a ^ b);
}
inline bool mask_any(Mask m) {
  return m != 0;
}
inline Vec vselect(Mask m, Vec yes, Vec no) {
  return _mm512_mask_blend_ps(m, no, yes);
}

// The first n lanes (0 <= n <= kWidth) of x, the others of `rest`.
inline Vec vkeepn(Vec x, int64_t n, Vec rest) {
  return _mm512_mask_blend_ps(first_lanes(n), rest, x);
}

// table[the low four bits of each lane].
inline Vec vlookup16(const float* table, Vec bits) {
  return _mm512_permutexvar_ps(_mm512_castps_si512(bits), _mm512_load_ps(table));
}

// x * 2^n for integral n; overflows to infinity and underflows through denormals.
inline Vec vscale2(Vec x, Vec n) {
  return _mm512_scalef_ps(x, n);
}
// x = m * 2^e with m in [0.75, 1.5).
inline void split_log2(Vec x, Vec& m, Vec& e) {
  m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
  e = _mm512_getexp_ps(x);
  // getexp is floor(log2 x): one less than e where the mantissa was halved.
  e = _mm512_mask_add_ps(e, _mm512_cmp_ps_mask(m, vset(1), _CMP_LT_OQ), e, vset(1));
}

inline Vec load_bf16(const uint16_t* p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
inline Vec loadn_bf16(const uint16_t* p, int64_t n) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(n), p)), 16));
}
inline __m256i to_bf16(Vec x) {  // to nearest even; NaN stays NaN
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded =
      _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
  rounded = _mm512_mask_mov_epi32(rounded, visnan(x), quiet);
  return _mm512_cvtepi32_epi16(rounded);
}
inline void store_bf16(uint16_t* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16(x));
}
inline void storen_bf16(uint16_t* p, Vec x, int64_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), to_bf16(x));
}
inline Vec load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec loadn_f16(const uint16_t* p, int64_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
inline void store_f16(uint16_t* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x, 0));
}
inline void storen_f16(uint16_t* p, Vec x, int64_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), _mm512_cvtps_ph(x, 0));
}

inline float hsum(Vec x) {
  return _mm512_reduce_add_ps(x);
}
inline float hmax(Vec x) {
  return _mm512_reduce_max_ps(x);
}
inline float hmin(Vec x) {
  return _mm512_reduce_min_ps(x);
}

}  // namespace
