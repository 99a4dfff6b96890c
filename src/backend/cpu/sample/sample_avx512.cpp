// SPDX-License-Identifier: Apache-2.0
//
// Sums of pixels for AVX-512.
#include "backend/cpu/sample/sample_table.h"
#include "backend/cpu/vector/vec_avx512.h"
//
#include "backend/cpu/sample/sample.inc"

namespace lathe::cpu {
const SampleTable& sample_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
