// SPDX-License-Identifier: Apache-2.0
//
// Attention for AVX512.
#include "backend/cpu/kernels/vec_avx512.h"
//
#include "backend/cpu/kernels/math.inc"
//
#include "backend/cpu/kernels/gemm_tile.inc"
//
#include "backend/cpu/kernels/attention_table.h"
//
#include "backend/cpu/kernels/attention.inc"

namespace lathe::cpu {
const AttentionTable& attention_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
