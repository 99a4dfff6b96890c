// SPDX-License-Identifier: Apache-2.0
//
// Elimination for AVX2.
#include "backend/cpu/product/lu.inc"

namespace lathe::cpu {
const LuTable& lu_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
