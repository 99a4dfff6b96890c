// SPDX-License-Identifier: Apache-2.0
//
// Strassen's products for AVX2.
#include "backend/cpu/kernels/strassen_table.h"
#include "backend/cpu/kernels/tile_matmul_table.h"
#include "backend/cpu/kernels/vec_avx2.h"
//
#include "backend/cpu/kernels/math.inc"
//
#include "backend/cpu/kernels/activation.inc"

namespace {

struct Step {
  static void store_bf16(uint16_t* p, Vec x) { ::store_bf16(p, x); }
  static void storen_bf16(uint16_t* p, Vec x, int64_t lanes) { ::storen_bf16(p, x, lanes); }
};

}  // namespace

#include "backend/cpu/kernels/tile_tail.inc"
//
#include "backend/cpu/kernels/strassen.inc"

namespace lathe::cpu {
const StrassenTable& strassen_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
