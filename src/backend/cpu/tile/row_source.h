// SPDX-License-Identifier: Apache-2.0
//
// Where the rows of a product's left operand lie: images of height x width pixels, every stride-th of which
// is a row. A plain matrix is one image of one line.
#pragma once

#include <cstdint>

namespace lathe::cpu {

struct RowSource {
  int64_t images = 1, height = 1, width = 1;  // of the result
  int64_t in_height = 1, in_width = 1, stride_y = 1, stride_x = 1;

  bool dense() const { return stride_y == 1 && stride_x == 1; }
  // In pixels.
  int64_t position(int64_t row) const {
    if (dense()) return row;
    const int64_t x = row % width, y = row / width % height, image = row / (width * height);
    return (image * in_height + y * stride_y) * in_width + x * stride_x;
  }
};

}  // namespace lathe::cpu
