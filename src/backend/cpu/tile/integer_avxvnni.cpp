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
namespace {

struct Quads {
  static IntVec dot(IntVec x, IntVec w, IntVec sum) { return _mm256_dpbusd_avx_epi32(sum, x, w); }
};

}  // namespace

const IntegerTable& integer_table_avxvnni() {
  static constexpr IntegerTable table = make_table<Quads>("avxvnni", 4);
  return table;
}

}  // namespace lathe::cpu
