// SPDX-License-Identifier: Apache-2.0
//
// Winograd's transforms for AVX-512.
#include "backend/cpu/kernels/vec_avx512.h"
//
#include "backend/cpu/kernels/loads.inc"
#include "backend/cpu/kernels/math.inc"
#include "backend/cpu/kernels/winograd_table.h"
//
#include "backend/cpu/kernels/activation.inc"
//
#include "backend/cpu/kernels/winograd.inc"

namespace lathe::cpu {
const WinogradTable& winograd_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
