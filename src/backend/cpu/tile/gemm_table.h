// SPDX-License-Identifier: Apache-2.0
//
// The FP32 product of a few rows with one panel of columns, one table per instruction set.
#pragma once

#include <cstdint>

namespace lathe::cpu {

struct GemmTable {
  int64_t tile_rows;  // rows that one call takes at most
  int64_t panel;      // columns that it makes
  // c (rows ldc apart) = start + a (rows lda apart, k long) times a packed panel [k][panel]. `start`: null
  // for zero, c itself to go on with a sum, or one row for all (stride 0), such as a bias.
  void (*multiply)(int64_t rows, const float* a, int64_t lda, const float* b, int64_t k, float* c,
                   int64_t ldc, const float* start, int64_t start_stride);
};

const GemmTable& gemm_table_avx2();
const GemmTable& gemm_table_avx512();

}  // namespace lathe::cpu
