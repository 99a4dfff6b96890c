// SPDX-License-Identifier: Apache-2.0
//
// Tiles of FP32 products for AVX-512.
#include "backend/cpu/tile/tile_matmul_table.h"
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/activation.inc"

namespace {

struct Step {
  static Vec multiply(Vec a, Vec b, Vec sum) { return fmadd(a, b, sum); }
  static __m256 multiply_half(__m256 a, __m256 b, __m256 sum) { return _mm256_fmadd_ps(a, b, sum); }
};

}  // namespace

#include "backend/cpu/vector/rounding.inc"
//
#include "backend/cpu/tile/tile_tail.inc"
//
#include "backend/cpu/tile/tile_matmul.inc"

namespace lathe::cpu {
const MatMulTileTable& tile_matmul_table_f32_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
