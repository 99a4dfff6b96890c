// SPDX-License-Identifier: Apache-2.0
//
// Strassen's products for AVX2.
#include "backend/cpu/product/strassen_table.h"
#include "backend/cpu/tile/tile_matmul_table.h"
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/activation.inc"

#include "backend/cpu/vector/rounding.inc"
//
#include "backend/cpu/tile/tile_tail.inc"
//
#include "backend/cpu/product/strassen.inc"

namespace lathe::cpu {
const StrassenTable& strassen_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
