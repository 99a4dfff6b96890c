// SPDX-License-Identifier: Apache-2.0
//
// Patches of a convolution for AVX-512.
#include "backend/cpu/conv/patch_table.h"
#include "backend/cpu/vector/vec_avx512.h"

namespace {
using Lanes = Mask;
inline Lanes lanes_between(int64_t begin, int64_t end) {
  const auto first = [](int64_t n) { return n <= 0 ? 0u : n >= kWidth ? 0xffffu : (1u << n) - 1; };
  return static_cast<Mask>(first(end) & ~first(begin));
}
inline Vec load_lanes(const float* p, Lanes lanes) {
  return _mm512_maskz_loadu_ps(lanes, p);
}
}  // namespace
//
#include "backend/cpu/conv/patch.inc"

namespace lathe::cpu {
const PatchTable& patch_table_avx512() {
  return kTable;
}
}  // namespace lathe::cpu
