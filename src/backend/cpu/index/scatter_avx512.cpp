// SPDX-License-Identifier: Apache-2.0
//
// Scattered updates for AVX-512.
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/loads.inc"
//
#include "backend/cpu/index/scatter.inc"

namespace lathe::cpu {
const ScatterTable& scatter_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
