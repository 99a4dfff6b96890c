// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/tile/amx_tiles.h"
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/vector/vec_integer_avx512.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/tile/integer_table.h"
#include "backend/cpu/vector/stored.h"
//
#include "backend/cpu/vector/activation.inc"
//
#include "backend/cpu/tile/integer.inc"
//
#include "backend/cpu/tile/integer_amx.inc"

namespace lathe::cpu {

const IntegerTable& integer_table_amx() {
  static constexpr IntegerTable table = make_tile_table<AmxTiles>("amx");
  return table;
}

}  // namespace lathe::cpu
