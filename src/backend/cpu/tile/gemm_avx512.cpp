// SPDX-License-Identifier: Apache-2.0
//
// Matrix products for AVX512.
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/tile/gemm_tile.inc"
//
#include "backend/cpu/tile/gemm_table.h"

namespace lathe::cpu {
namespace {

void multiply_panel(int64_t rows, const float* a, int64_t lda, const float* b, int64_t k, float* c,
                    int64_t ldc, const float* start, int64_t start_stride) {
  multiply(rows, a, lda, b, kPanel, k, c, ldc, start, start_stride);
}
constexpr GemmTable kTable = {.tile_rows = kTileRows, .panel = kPanel, .multiply = multiply_panel};

}  // namespace

const GemmTable& gemm_table_avx512() {
  return kTable;
}

}  // namespace lathe::cpu
