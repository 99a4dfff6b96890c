// SPDX-License-Identifier: Apache-2.0
//
// Overlaps of boxes for AVX2.
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/select/overlap.inc"

namespace lathe::cpu {
const OverlapTable& overlap_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
