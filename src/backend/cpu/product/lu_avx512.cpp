// SPDX-License-Identifier: Apache-2.0
//
// Elimination for AVX-512.
#include "backend/cpu/product/lu.inc"

namespace lathe::cpu {
const LuTable& lu_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
