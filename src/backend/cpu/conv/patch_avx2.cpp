// SPDX-License-Identifier: Apache-2.0
//
// Patches of a convolution for AVX2.
#include "backend/cpu/conv/patch_table.h"
#include "backend/cpu/vector/vec_avx2.h"

namespace {
using Lanes = __m256i;
inline Lanes lanes_between(int64_t begin, int64_t end) {
  const auto lane = [](int64_t n) { return static_cast<int>(n < 0 ? 0 : n > kWidth ? kWidth : n); };
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(lane(begin)), lanes),
                             _mm256_cmpgt_epi32(_mm256_set1_epi32(lane(end)), lanes));
}
inline Vec load_lanes(const float* p, Lanes lanes) {
  return _mm256_maskload_ps(p, lanes);
}
}  // namespace
//
#include "backend/cpu/conv/patch.inc"

namespace lathe::cpu {
const PatchTable& patch_table_avx2() {
  return kTable;
}
}  // namespace lathe::cpu
