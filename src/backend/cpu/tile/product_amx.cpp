// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/tile/amx_table.h"
#include "backend/cpu/tile/amx_tiles.h"
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/activation.inc"
//
#include "backend/cpu/vector/activation_bf16.inc"
//
#include "backend/cpu/vector/rounding_avx512_bf16.inc"
//
#include "backend/cpu/tile/amx_ahead.inc"
//
#include "backend/cpu/tile/amx_product.inc"

namespace lathe::cpu {
const AmxTable& amx_table() {
  return kAmxTable<AmxTiles>;
}
}  // namespace lathe::cpu
