// SPDX-License-Identifier: Apache-2.0
//
// Overlaps of boxes for AVX-512.
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/select/overlap.inc"

namespace lathe::cpu {
const OverlapTable& overlap_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
