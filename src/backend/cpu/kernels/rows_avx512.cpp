// SPDX-License-Identifier: Apache-2.0
//
// Row kernels for AVX512.
#include "backend/cpu/kernels/vec_avx512.h"
//
#include "backend/cpu/kernels/math.inc"
#include "backend/cpu/kernels/rows_table.h"
//
#include "backend/cpu/kernels/rounding.inc"
//
#include "backend/cpu/kernels/rows.inc"

namespace lathe::cpu {
const RowsTable& rows_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
