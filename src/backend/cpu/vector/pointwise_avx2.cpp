// SPDX-License-Identifier: Apache-2.0
//
// Pointwise loops for AVX2.
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/vector/vec_integer_avx2.h"
//
#include "backend/cpu/vector/math.inc"
#include "backend/cpu/vector/pointwise_table.h"
#include "backend/cpu/vector/trigonometry.inc"
#include "backend/cpu/vector/wide_math.inc"
//
#include "backend/cpu/vector/pointwise.inc"

namespace lathe::cpu {
const PointwiseTable& pointwise_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
