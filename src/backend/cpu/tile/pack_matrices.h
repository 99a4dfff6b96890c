// SPDX-License-Identifier: Apache-2.0
//
// Right operands of FP32 products as panels: [panel][k][columns of a panel], so that a kernel reads them from
// front to back. The last panel's missing columns are zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/tensor.h"

namespace lathe::cpu {

// One panel of b (K x N, or N x K when transposed): columns [first, first + panel).
void pack_panel(const float* b, bool transposed, int64_t k, int64_t n, int64_t first, int64_t panel,
                float* out);

// The matrices of a constant right operand, one after the other; behind them room for `extra_floats` (zero).
std::vector<std::byte> pack_matrices(const Tensor& weights, bool transposed, int64_t matrices, int64_t k,
                                     int64_t n, int64_t panel, int64_t extra_floats = 0);

}  // namespace lathe::cpu
