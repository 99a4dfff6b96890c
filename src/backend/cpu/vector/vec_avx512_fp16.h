// SPDX-License-Identifier: Apache-2.0
//
// The words of vec_avx512.h that windows use, for vectors of 32 FP16: twice the numbers for each instruction.
// (AVX512-FP16 computes with denormals at full speed, whatever MXCSR says of FP32's.)
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

using Vec = __m512h;
using Lane = _Float16;
constexpr int64_t kWidth = 32;
constexpr int kVectorRegisters = 32;

inline __mmask32 first_lanes(int64_t n) {
  return static_cast<__mmask32>((uint64_t{1} << n) - 1);
}

// To the nearest FP16.
inline Vec vset(float x) {
  return _mm512_set1_ph(static_cast<_Float16>(x));
}
inline Vec vzero() {
  return _mm512_setzero_ph();
}
inline Vec vload(const _Float16* p) {
  return _mm512_loadu_ph(p);
}
inline void vstore(_Float16* p, Vec x) {
  _mm512_storeu_ph(p, x);
}
// The first n lanes (0 <= n <= kWidth); others are zero, memory beyond is not touched.
inline Vec vloadn(const _Float16* p, int64_t n) {
  return _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(first_lanes(n), p));
}
inline void vstoren(_Float16* p, Vec x, int64_t n) {
  _mm512_mask_storeu_epi16(p, first_lanes(n), _mm512_castph_si512(x));
}

inline Vec fmadd(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ph(a, b, c);
}  // a * b + c
// The second operand when one is NaN.
inline Vec vmin(Vec a, Vec b) {
  return _mm512_min_ph(a, b);
}
inline Vec vmax(Vec a, Vec b) {
  return _mm512_max_ph(a, b);
}

}  // namespace
