// SPDX-License-Identifier: Apache-2.0
//
// Attention for AVX512.
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/loads.inc"
//
#include "backend/cpu/tile/gemm_tile.inc"
//
#include "backend/cpu/attention/attention_table.h"
//
#include "backend/cpu/attention/attention.inc"

namespace lathe::cpu {
const AttentionTable& attention_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
