// SPDX-License-Identifier: Apache-2.0
//
// Interpolation for AVX2.
#include "backend/cpu/resize/interpolate_table.h"
//
#include "backend/cpu/resize/interpolate.inc"

namespace lathe::cpu {
const InterpolateTable& interpolate_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
