// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms for AVX2.
#include "backend/cpu/signal/fft_table.h"
#include "backend/cpu/vector/vec_avx2.h"
//
#include "backend/cpu/signal/fft.inc"

namespace lathe::cpu {
const FftTable& fft_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
