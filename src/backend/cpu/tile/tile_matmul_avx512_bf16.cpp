// SPDX-License-Identifier: Apache-2.0
//
// Tiles of BF16 products for AVX512-BF16: two neighbours along k per instruction, sums in FP32.
#include "backend/cpu/tile/tile_matmul_table.h"
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/activation.inc"

namespace {

struct Step {
  static Vec multiply(Vec a, Vec b, Vec sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  static __m256 multiply_half(__m256 a, __m256 b, __m256 sum) {
    return _mm256_dpbf16_ps(sum, reinterpret_cast<__m256bh>(a), reinterpret_cast<__m256bh>(b));
  }
};

}  // namespace

#include "backend/cpu/vector/rounding_avx512_bf16.inc"
//
#include "backend/cpu/tile/tile_tail.inc"
//
#include "backend/cpu/tile/tile_matmul.inc"

namespace lathe::cpu {
const MatMulTileTable& tile_matmul_table_bf16_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
