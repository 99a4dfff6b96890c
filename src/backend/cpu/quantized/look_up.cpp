// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/quantized/look_up.h"

namespace lathe::cpu {

void look_up(const uint8_t* in, int64_t count, const uint8_t* table, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = table[in[i]];
}

}  // namespace lathe::cpu
