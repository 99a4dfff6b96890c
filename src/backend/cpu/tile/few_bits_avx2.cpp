// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/vector/vec_integer_avx2.h"
//
#include "backend/cpu/tile/few_bits_table.h"
//
#include "backend/cpu/tile/few_bits_panel.inc"
//
#include "backend/cpu/tile/few_bits.inc"

namespace lathe::cpu {

const FewBitTable& few_bit_table_avx2() {
  static constexpr FewBitTable table = {"avx2",     kPanelColumns, kMostRows,
                                        count_sums, prepare_row,   multiply_panel<FloatProduct>};
  return table;
}

}  // namespace lathe::cpu
