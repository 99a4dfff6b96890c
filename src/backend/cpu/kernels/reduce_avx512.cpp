// SPDX-License-Identifier: Apache-2.0
//
// Reductions and pooling for AVX512.
#include "backend/cpu/kernels/vec_avx512.h"
//
#include "backend/cpu/kernels/loads.inc"
#include "backend/cpu/kernels/reduce_table.h"
//
#include "backend/cpu/kernels/reduce.inc"

namespace lathe::cpu {
const ReduceTable& reduce_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
