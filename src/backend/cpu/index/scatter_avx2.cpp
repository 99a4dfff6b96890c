// SPDX-License-Identifier: Apache-2.0
//
// Scattered updates for AVX2.
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/vector/loads.inc"
//
#include "backend/cpu/index/scatter.inc"

namespace lathe::cpu {
const ScatterTable& scatter_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
