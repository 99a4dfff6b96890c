// SPDX-License-Identifier: Apache-2.0
//
// Lrn for AVX-512.
#include "backend/cpu/region/lrn_table.h"
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/region/lrn.inc"

namespace lathe::cpu {
const LrnTable& lrn_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
