// SPDX-License-Identifier: Apache-2.0
//
// What layers with a depthwise convolution share: the kernels' tables, which window rows lie inside the data, packed weights.
#pragma once

#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/kernels/depthwise_table.h"
#include "ops/window.h"

namespace lathe::cpu {

const DepthwiseTable& depthwise_table(Isa isa);

// The window's rows that lie inside the data, for an output row.
struct WindowRows {
  int64_t first_tap = 0, first_row = 0, count = 0;
};
WindowRows rows_inside(const WindowAxis& y, int64_t output_row);

// All that the horizontal axis says about a row.
void set_columns(DepthwiseRow& row, const WindowAxis& x);

// [vector of channels][tap][lane], then the biases (whole vectors); lanes beyond the channels are zero.
std::vector<float> pack_depthwise(const Tensor& weights, int64_t lanes, const std::vector<float>& bias);

}  // namespace lathe::cpu
