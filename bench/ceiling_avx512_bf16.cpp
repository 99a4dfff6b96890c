// SPDX-License-Identifier: Apache-2.0
//
// BF16 dot products of AVX512-BF16: two multiply-adds per lane. Twelve chains hide the latency; the empty asm
// keeps each step, and its operands in registers.
#include <immintrin.h>

#include "ceiling_kernels.h"

namespace lathe::bench {

double dot_bf16_avx512(int64_t rounds) {
  constexpr int kChains = 12;
  const __m512 factor = _mm512_set1_ps(0.5f);
  __m512 sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = factor;
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      sum[i] =
          _mm512_dpbf16_ps(sum[i], reinterpret_cast<__m512bh>(factor), reinterpret_cast<__m512bh>(factor));
      asm volatile("" : "+v"(sum[i]));
    }
  }
  return static_cast<double>(rounds) * kChains * 16 * 4;
}

}  // namespace lathe::bench
