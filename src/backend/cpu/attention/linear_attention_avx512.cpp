// SPDX-License-Identifier: Apache-2.0
//
// Steps of LinearAttention for AVX-512.
#include "backend/cpu/attention/linear_attention_table.h"
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/attention/linear_attention.inc"

namespace lathe::cpu {
const LinearAttentionTable& linear_attention_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
