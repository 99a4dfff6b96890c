// SPDX-License-Identifier: Apache-2.0
//
// Row kernels for AVX512-BF16: one instruction rounds.
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/region/rows_table.h"
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/rounding_avx512_bf16.inc"
//
#include "backend/cpu/region/rows.inc"

namespace lathe::cpu {
const RowsTable& rows_table_avx512_bf16() {
  return kTable;
}
}  // namespace lathe::cpu
