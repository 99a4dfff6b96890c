// SPDX-License-Identifier: Apache-2.0
//
// FP32 multiply-adds of AVX2. Twelve chains hide the latency; the empty asm keeps each
// step, and its operands in registers.
#include <immintrin.h>

#include "ceiling_kernels.h"

namespace lathe::bench {

double multiply_add_avx2(int64_t rounds) {
  constexpr int kChains = 12;
  const __m256 factor = _mm256_set1_ps(0.5f);
  __m256 sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = factor;
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      sum[i] = _mm256_fmadd_ps(sum[i], factor, factor);
      asm volatile("" : "+x"(sum[i]));
    }
  }
  return static_cast<double>(rounds) * kChains * 8 * 2;
}

}  // namespace lathe::bench
