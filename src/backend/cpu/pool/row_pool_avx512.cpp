// SPDX-License-Identifier: Apache-2.0
//
// Pooling of rows for AVX-512.
#include "backend/cpu/pool/row_pool_table.h"
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/pool/row_pool.inc"

namespace lathe::cpu {
const RowPoolTable& row_pool_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
