// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "backend/cpu/quantized/look_up.h"

namespace lathe::cpu {
namespace {

struct Table {
  __m512i quarters[4];

  // Seven bits of each index choose in one half of the table, the eighth says in which.
  __m512i operator()(__m512i index) const {
    const __m512i low = _mm512_permutex2var_epi8(quarters[0], index, quarters[1]),
                  high = _mm512_permutex2var_epi8(quarters[2], index, quarters[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high);
  }
};

}  // namespace

void look_up_avx512_vbmi(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out) {
  Table t;
  for (int i = 0; i < 4; ++i) t.quarters[i] = _mm512_loadu_si512(table + 64 * i);
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) _mm512_storeu_si512(out + i, t(_mm512_loadu_si512(in + i)));
  if (i == count) return;
  const __mmask64 rest = ~__mmask64{0} >> (64 - (count - i));
  _mm512_mask_storeu_epi8(out + i, rest, t(_mm512_maskz_loadu_epi8(rest, in + i)));
}

}  // namespace lathe::cpu
