// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/vector/vec_integer_avx2.h"
//
#include "backend/cpu/tile/few_bits_table.h"

namespace lathe::cpu {
namespace {

struct Quads {
  static IntVec dot(IntVec unsigned_bytes, IntVec signed_bytes, IntVec sums) {
    return _mm256_dpbusd_avx_epi32(sums, unsigned_bytes, signed_bytes);
  }
};

}  // namespace
}  // namespace lathe::cpu

#include "backend/cpu/tile/few_bits_panel.inc"
//
#include "backend/cpu/tile/few_bits_quads.inc"

namespace lathe::cpu {

const FewBitTable& few_bit_table_avxvnni() {
  static constexpr FewBitTable table = {"avxvnni",     kPanelColumns,  kMostRows,
                                        count_numbers, prepare_digits, multiply_panel<DigitProduct>};
  return table;
}

}  // namespace lathe::cpu
