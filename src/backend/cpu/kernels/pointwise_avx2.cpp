// SPDX-License-Identifier: Apache-2.0
//
// Pointwise loops for AVX2.
#include "backend/cpu/kernels/vec_avx2.h"
//
#include "backend/cpu/kernels/math.inc"
#include "backend/cpu/kernels/pointwise_table.h"
//
#include "backend/cpu/kernels/pointwise.inc"

namespace lathe::cpu {
const PointwiseTable& pointwise_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
