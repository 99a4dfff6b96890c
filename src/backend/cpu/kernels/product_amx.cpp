// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kernels/amx_table.h"
#include "backend/cpu/kernels/amx_tiles.h"
#include "backend/cpu/kernels/vec_avx512.h"
//
#include "backend/cpu/kernels/math.inc"
//
#include "backend/cpu/kernels/activation.inc"
//
#include "backend/cpu/kernels/activation_bf16.inc"
//
#include "backend/cpu/kernels/rounding_avx512_bf16.inc"
//
#include "backend/cpu/kernels/amx_ahead.inc"
//
#include "backend/cpu/kernels/amx_product.inc"

namespace lathe::cpu {
const AmxTable& amx_table() {
  return kAmxTable<AmxTiles>;
}
}  // namespace lathe::cpu
