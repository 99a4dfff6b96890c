// SPDX-License-Identifier: Apache-2.0
//
// Strassen's products for AVX2.
#include "backend/cpu/kernels/strassen_table.h"
#include "backend/cpu/kernels/tile_matmul_table.h"
#include "backend/cpu/kernels/vec_avx2.h"
//
#include "backend/cpu/kernels/math.inc"
//
#include "backend/cpu/kernels/activation.inc"

#include "backend/cpu/kernels/rounding.inc"
//
#include "backend/cpu/kernels/tile_tail.inc"
//
#include "backend/cpu/kernels/strassen.inc"

namespace lathe::cpu {
const StrassenTable& strassen_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
