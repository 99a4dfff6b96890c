// SPDX-License-Identifier: Apache-2.0
//
// Squeeze-and-excite for AVX512-BF16: one instruction rounds.
#include "backend/cpu/kernels/vec_avx512.h"
//
#include "backend/cpu/kernels/loads.inc"
#include "backend/cpu/kernels/squeeze_excite_table.h"
//
#include "backend/cpu/kernels/rounding_avx512_bf16.inc"
//
#include "backend/cpu/kernels/squeeze_excite.inc"

namespace lathe::cpu {
const SqueezeExciteTable& squeeze_excite_table_avx512_bf16() {
  return kTable;
}
}  // namespace lathe::cpu
