// SPDX-License-Identifier: Apache-2.0
//
// Pointwise loops for AVX512.
#include "backend/cpu/kernels/vec_avx512.h"
//
#include "backend/cpu/kernels/math.inc"
#include "backend/cpu/kernels/pointwise_table.h"
//
#include "backend/cpu/kernels/pointwise.inc"

namespace lathe::cpu {
const PointwiseTable& pointwise_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
