// SPDX-License-Identifier: Apache-2.0
//
// Squeeze-and-excite for AVX2.
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/conv/squeeze_excite_table.h"
#include "backend/cpu/vector/loads.inc"
//
#include "backend/cpu/vector/rounding.inc"
//
#include "backend/cpu/conv/squeeze_excite.inc"

namespace lathe::cpu {
const SqueezeExciteTable& squeeze_excite_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
