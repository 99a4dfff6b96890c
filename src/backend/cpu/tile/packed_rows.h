// SPDX-License-Identifier: Apache-2.0
//
// How weights are packed that are the left operand of a product.
#pragma once

#include <cstdint>

#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {

// Elements from one row of FP32 weights, k long, to the next: no multiple of 1 KB apart, because those would
// share few cache sets.
inline int64_t packed_stride(int64_t k) {
  const int64_t rounded = round_up(k, 16);
  return rounded % 256 == 0 ? rounded + 16 : rounded;
}

}  // namespace lathe::cpu
