// SPDX-License-Identifier: Apache-2.0
//
// The loop of Lrn, one table per instruction set.
#pragma once

#include <cstdint>

#include "backend/cpu/vector/stored.h"

namespace lathe::cpu {

// x / (bias + weight * sum of squares) ^ beta.
struct LrnFormula {
  float weight = 0, beta = 0.75f, bias = 1;
};

struct LrnTable {
  // y[i] for i < n. The squares are those of x[i + k * step] for k from -before to after.
  void (*line)(const void* x, Stored type, int64_t before, int64_t after, int64_t step,
               const LrnFormula& formula, float* y, int64_t n);
};

const LrnTable& lrn_table_avx2();
const LrnTable& lrn_table_avx512();

}  // namespace lathe::cpu
