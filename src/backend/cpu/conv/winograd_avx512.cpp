// SPDX-License-Identifier: Apache-2.0
//
// Winograd's transforms for AVX-512.
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/conv/winograd_table.h"
#include "backend/cpu/vector/loads.inc"
#include "backend/cpu/vector/math.inc"
//
#include "backend/cpu/vector/activation.inc"
//
#include "backend/cpu/conv/winograd.inc"

namespace lathe::cpu {
const WinogradTable& winograd_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
