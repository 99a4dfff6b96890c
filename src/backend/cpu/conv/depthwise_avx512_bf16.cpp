// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolution for AVX512-BF16: one instruction rounds, where AVX-512 takes nine.
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/conv/depthwise_table.h"
#include "backend/cpu/vector/loads.inc"
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/activation.inc"
//
#include "backend/cpu/vector/activation_bf16.inc"
//
#include "backend/cpu/vector/rounding_avx512_bf16.inc"
//
namespace lathe::cpu {
namespace {

// One instruction places the halves, where widening and shifting take two: every loaded vector meets only a
// few multiply-adds.
struct DepthwiseBf16 {
  using Element = uint16_t;
  static Vec full(const uint16_t* p) {
    const __m512i halves = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    // Word 2 i + 1 of the result is word i; the low words are zero.
    const __m512i places =
        _mm512_set_epi32(15 << 16, 14 << 16, 13 << 16, 12 << 16, 11 << 16, 10 << 16, 9 << 16, 8 << 16,
                         7 << 16, 6 << 16, 5 << 16, 4 << 16, 3 << 16, 2 << 16, 1 << 16, 0);
    return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, places, halves));
  }
  static Vec part(const uint16_t* p, int64_t n) { return loadn_bf16(p, n); }
};

}  // namespace
}  // namespace lathe::cpu

#include "backend/cpu/conv/depthwise.inc"

namespace lathe::cpu {
const DepthwiseTable& depthwise_table_avx512_bf16() {
  return kTable;
}
}  // namespace lathe::cpu
