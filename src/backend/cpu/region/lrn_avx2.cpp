// SPDX-License-Identifier: Apache-2.0
//
// Lrn for AVX2.
#include "backend/cpu/region/lrn_table.h"
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/region/lrn.inc"

namespace lathe::cpu {
const LrnTable& lrn_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
