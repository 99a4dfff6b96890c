// SPDX-License-Identifier: Apache-2.0
//
// The kernels of interpolating Resize, one table per instruction set.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// For each result position, tap after tap: which input position, and its weight. Both lie [tap][position].
struct LineTaps {
  int64_t positions = 0, taps = 0;
  const int32_t* index = nullptr;
  const float* weights = nullptr;
};

struct InterpolateTable {
  // A row of pixels of `inner` elements each, resized along the row.
  void (*row)(const float* x, float* y, const LineTaps& t, int64_t inner);
  // y = the sum of weights[k] * rows[k], over n elements; rows of weight 0 are left out.
  void (*blend)(const float* const* rows, const float* weights, int64_t taps, float* y, int64_t n);
};

const InterpolateTable& interpolate_table_avx2();
const InterpolateTable& interpolate_table_avx512();

}  // namespace lathe::cpu
