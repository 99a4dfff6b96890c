// SPDX-License-Identifier: Apache-2.0
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

namespace lathe::cpu {
namespace {

struct Quads {
  static IntVec dot(IntVec x, IntVec w, IntVec sum) { return _mm512_dpbusd_epi32(sum, x, w); }
};

}  // namespace

const IntegerTable& integer_table_avx512_vnni() {
  static constexpr IntegerTable table = make_table<Quads>("avx512_vnni", 4);
  return table;
}

}  // namespace lathe::cpu
