// SPDX-License-Identifier: Apache-2.0
//
// Reductions and pooling for AVX512.
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/loads.inc"
#include "backend/cpu/vector/math.inc"
#include "backend/cpu/vector/reduce_table.h"
//
#include "backend/cpu/vector/reduce.inc"

namespace lathe::cpu {
const ReduceTable& reduce_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
