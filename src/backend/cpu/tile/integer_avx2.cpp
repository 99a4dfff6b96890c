// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/vector/vec_integer_avx2.h"
//
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/tile/integer_table.h"
#include "backend/cpu/vector/stored.h"
//
#include "backend/cpu/vector/activation.inc"
//
#include "backend/cpu/tile/integer.inc"

namespace lathe::cpu {

const IntegerTable& integer_table_avx2() {
  static constexpr IntegerTable table = make_table<Pairs>("avx2", 2);
  return table;
}

}  // namespace lathe::cpu
