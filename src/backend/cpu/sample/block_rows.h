// SPDX-License-Identifier: Apache-2.0
//
// An image as the sum of the blocks that cover it, row by row: what Col2Im is, and the last step of a
// transposed convolution.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/vector/pointwise_table.h"
#include "ops/window.h"

namespace lathe::cpu {

class BlockRows {
 public:
  // `input` of an axis: the image's extent; `output`: the blocks along it.
  explicit BlockRows(std::vector<WindowAxis> axes) : axes_(std::move(axes)) {}

  int64_t rows() const { return product(&WindowAxis::input, axes_.size() - 1); }
  int64_t width() const { return axes_.back().input; }
  int64_t in_a_row() const { return axes_.back().output; }  // blocks
  int64_t taps() const { return product(&WindowAxis::kernel, axes_.size()); }
  int64_t count() const { return product(&WindowAxis::output, axes_.size()); }

  // Rows that are summed together: 32 KB, so that blocks are read in long runs and the sum stays in L1.
  int64_t band() const {
    return std::clamp<int64_t>((1 << 13) / std::max<int64_t>(1, width()), 1, std::max<int64_t>(1, rows()));
  }

  // Adds to rows [begin, end) of the image what blocks have for them; `sum` is the first one. values(tap,
  // block, n): where the elements of n blocks from `block` on lie, of that tap.
  template <class Values>
  void add(int64_t begin, int64_t end, const PointwiseTable& table, float* sum, Values&& values) const {
    const int64_t outer_taps = product(&WindowAxis::kernel, axes_.size() - 1);
    for (int64_t tap = 0; tap < outer_taps; ++tap)
      for (int64_t row = begin; row < end; ++row)
        if (const int64_t block = block_of(row, tap); block >= 0)
          add_row(tap, block, table, sum + (row - begin) * width(), values);
  }

 private:
  template <class Values>
  void add_row(int64_t tap, int64_t block, const PointwiseTable& table, float* sum, Values&& values) const {
    const WindowAxis& last = axes_.back();
    for (int64_t k = 0; k < last.kernel; ++k) {
      // Pixels i * stride + shift, i from first to end.
      const int64_t shift = k * last.dilation - last.pad_begin;
      const int64_t first = shift >= 0 ? 0 : (-shift + last.stride - 1) / last.stride;
      const int64_t end =
          shift >= last.input ? 0 : std::min(last.output, (last.input - 1 - shift) / last.stride + 1);
      if (first >= end) continue;
      const float* from = values(tap * last.kernel + k, block * last.output + first, end - first);
      float* to = sum + first * last.stride + shift;
      if (last.stride == 1)
        table.add.vector_vector(to, from, to, end - first);
      else
        for (int64_t i = 0; i < end - first; ++i) to[i * last.stride] += from[i];
    }
  }
  int64_t product(int64_t WindowAxis::*extent, size_t dims) const {
    int64_t n = 1;
    for (size_t d = 0; d < dims; ++d) n *= axes_[d].*extent;
    return n;
  }
  // Which block reaches row `row` with tap `tap` of the dims but the last; -1: none.
  int64_t block_of(int64_t row, int64_t tap) const {
    int64_t block = 0, stride = 1;
    for (size_t d = axes_.size() - 1; d-- > 0;) {
      const WindowAxis& axis = axes_[d];
      const int64_t from = row % axis.input + axis.pad_begin - tap % axis.kernel * axis.dilation;
      if (from < 0 || from % axis.stride != 0 || from / axis.stride >= axis.output) return -1;
      block += from / axis.stride * stride;
      stride *= axis.output;
      row /= axis.input;
      tap /= axis.kernel;
    }
    return block;
  }

  std::vector<WindowAxis> axes_;
};

}  // namespace lathe::cpu
