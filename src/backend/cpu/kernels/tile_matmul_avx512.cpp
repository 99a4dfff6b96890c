// SPDX-License-Identifier: Apache-2.0
//
// Tiles of FP32 products for AVX-512.
#include "backend/cpu/kernels/tile_matmul_table.h"
#include "backend/cpu/kernels/vec_avx512.h"
//
#include "backend/cpu/kernels/math.inc"
//
#include "backend/cpu/kernels/activation.inc"

namespace {

struct Step {
  static Vec multiply(Vec a, Vec b, Vec sum) { return fmadd(a, b, sum); }
  static __m256 multiply_half(__m256 a, __m256 b, __m256 sum) { return _mm256_fmadd_ps(a, b, sum); }
};

}  // namespace

#include "backend/cpu/kernels/rounding.inc"
//
#include "backend/cpu/kernels/tile_tail.inc"
//
#include "backend/cpu/kernels/tile_matmul.inc"

namespace lathe::cpu {
const MatMulTileTable& tile_matmul_table_f32_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
