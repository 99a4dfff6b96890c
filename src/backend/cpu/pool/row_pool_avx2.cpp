// SPDX-License-Identifier: Apache-2.0
//
// Pooling of rows for AVX2.
#include "backend/cpu/pool/row_pool_table.h"
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/pool/row_pool.inc"

namespace lathe::cpu {
const RowPoolTable& row_pool_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
