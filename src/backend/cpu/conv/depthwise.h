// SPDX-License-Identifier: Apache-2.0
//
// What layers with a depthwise convolution share: the kernels' tables, which window rows lie inside the data,
// packed weights.
#pragma once

#include <vector>

#include "backend/cpu/conv/depthwise_table.h"
#include "backend/cpu/kernel.h"
#include "ops/window.h"

namespace lathe::cpu {

const DepthwiseTable& depthwise_table(Isa isa);

// The window's rows that lie inside the data, for an output row.
struct WindowRows {
  int64_t first_tap = 0, first_row = 0, count = 0;
};
WindowRows rows_inside(const WindowAxis& y, int64_t output_row);

// All that the horizontal axis says about rows.
void set_columns(DepthwiseRows& rows, const WindowAxis& x);

// Where the input rows of an image lie, in elements; from `ring` rows on they begin again at the first.
struct InputRows {
  int64_t pitch = 0;
  int64_t ring = 0;  // 0: all rows are there
};
// Output rows [begin, end) of one vector of channels. `d` says all but which rows and what they want: `in` is
// the first channel of the image's first row, `out` that of output row `begin`.
void run_depthwise(const DepthwiseTable& table, DepthwiseRows& d, const InputRows& in, const WindowAxis& y,
                   const std::vector<WindowRows>& window_rows, const void* weights, int64_t begin,
                   int64_t end);

// Input rows of one vector of channels as FP32, vector by vector, a few output rows ahead of the windows and
// with the padding as zeros, so that all windows lie inside the data. The rows are a ring in L1. They pay
//   - in BF16: to place the halves of a loaded vector takes as long as two multiply-adds, and 3x3 windows
//     would do it three times for each vector;
//   - where pixels lie apart (channels-last): each line is wanted once, all of a row's at a time, whatever
//     sets of L1 they fall on;
//   - where a vector has fewer channels than lanes, and for windows that have no loops of their own.
class DenseRows {
 public:
  // Whether vectors of channels are taken so, pixels being `pixel` elements apart: whole ones, or any.
  static bool suit_whole(DType type, const WindowAxis& y, const WindowAxis& x, int64_t pixel, int64_t lanes);
  static bool suit_some(DType type, const WindowAxis& y, const WindowAxis& x, int64_t pixel, int64_t lanes);
  static int64_t floats(const WindowAxis& y, const WindowAxis& x, int64_t lanes);

  DenseRows(const DepthwiseTable& table, const WindowAxis& y, const WindowAxis& x, float* memory);
  // As run_depthwise().
  void run(DepthwiseRows& d, const std::vector<WindowRows>& window_rows, const void* weights, int64_t begin,
           int64_t end) const;

 private:
  // Output rows for which input rows are gathered at a time, and the rows that they want.
  static int64_t rows_ahead(const WindowAxis& y, const WindowAxis& x, int64_t lanes);
  static int64_t ring_rows(const WindowAxis& y, const WindowAxis& x, int64_t lanes);
  const DepthwiseTable& table_;
  const WindowAxis &y_, &x_;
  float* memory_;
  int64_t columns_;  // of a row in the ring
};

// [vector of channels][tap][lane], then the biases (whole vectors); lanes beyond the channels are zero.
std::vector<float> pack_depthwise(const Tensor& weights, int64_t lanes, const std::vector<float>& bias);

}  // namespace lathe::cpu
