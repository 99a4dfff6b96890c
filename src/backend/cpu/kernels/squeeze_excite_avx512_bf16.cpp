// SPDX-License-Identifier: Apache-2.0
//
// Squeeze-and-excite for AVX512-BF16: one instruction rounds.
#include "backend/cpu/kernels/vec_avx512.h"
//
#include "backend/cpu/kernels/loads.inc"
#include "backend/cpu/kernels/squeeze_excite_table.h"

namespace {

struct Rounding {
  static __m256i round(Vec x) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)); }
  static void store(uint16_t* p, Vec x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round(x)); }
  static void storen(uint16_t* p, Vec x, int64_t lanes) {
    _mm256_mask_storeu_epi16(p, first_lanes(lanes), round(x));
  }
};

}  // namespace

#include "backend/cpu/kernels/squeeze_excite.inc"

namespace lathe::cpu {
const SqueezeExciteTable& squeeze_excite_table_avx512_bf16() {
  return kTable;
}
}  // namespace lathe::cpu
