// SPDX-License-Identifier: Apache-2.0
//
// Loops on int64 and double for AVX2.
#include "backend/cpu/exact/exact_table.h"
//
#include "backend/cpu/exact/exact.inc"

namespace lathe::cpu {
const ExactTable& exact_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
