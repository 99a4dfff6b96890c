// SPDX-License-Identifier: Apache-2.0
//
// An image as the sum of the blocks that cover it, row by row: what Col2Im is, and the last step of a
// transposed convolution.
//
// With a step s, blocks that lie next to one another reach every s-th pixel. A row is therefore summed in s
// lines, one per remainder of the pixel by s: each tap then adds a run of neighbours, and the lines are
// interleaved once at the end. Pixel 7 of a row with step 3 is element 2 of line 1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/sample/sample_table.h"
#include "backend/cpu/vector/transpose_tile.h"
#include "ops/window_range.h"

namespace lathe::cpu {

class BlockRows {
 public:
  // `input` of an axis: the image's extent; `output`: the blocks along it.
  explicit BlockRows(std::vector<WindowAxis> axes) : last_(axes.back()), outer_(std::move(axes)) {
    outer_.pop_back();
    if (outer_.empty()) outer_.push_back({.input = 1, .output = 1});
    // No line is longer than the row: a step beyond it reaches one pixel of a line at most.
    line_ = (last_.input + last_.stride - 1) / last_.stride;
    for (int64_t k = 0; k < last_.kernel; ++k) runs_.push_back(run_of(k));
  }

  int64_t rows() const { return product(&WindowAxis::input); }
  int64_t width() const { return last_.input; }
  int64_t taps() const { return product(&WindowAxis::kernel) * last_.kernel; }
  int64_t count() const { return product(&WindowAxis::output) * last_.output; }

  // Rows that are summed together: 32 KB, so that blocks are read in long runs and the sum stays in L1.
  int64_t band() const {
    return std::clamp<int64_t>((1 << 13) / std::max<int64_t>(1, width()), 1, std::max<int64_t>(1, rows()));
  }
  // What a member needs to sum a band in lines; 0 where a row is one line.
  int64_t line_floats() const { return is_one_line() ? 0 : band() * row_floats(); }

  // Writes rows [begin, end) of the image to `sum`, no more than a band: `start` and what blocks have for
  // them. `x`: the elements of tap 0 of all blocks, those of the next tap `tap_stride` elements further.
  // `lines`: line_floats().
  void sum(int64_t begin, int64_t end, const SampleTable& table, const void* x, Stored type,
           int64_t tap_stride, float start, float* sum, float* lines) const {
    float* to = is_one_line() ? sum : lines;
    std::fill_n(to, (end - begin) * row_floats(), start);
    const WindowAxis& axis = outer_.back();
    const int64_t outer_taps = product(&WindowAxis::kernel), plane = axis.input;
    for (int64_t tap = 0; tap < outer_taps; ++tap)
      for (int64_t first = begin; first < end;) {
        // Rows of one plane: those of blocks first_block, first_block + 1 ... are a step apart.
        const int64_t base = first / plane * plane, last = std::min(end, base + plane);
        const int64_t planes = block_of(first / plane, tap / axis.kernel);
        const int64_t shift = tap % axis.kernel * axis.dilation - axis.pad_begin + base;
        const int64_t first_block = std::max<int64_t>(0, ceil_div(first - shift, axis.stride));
        for (int64_t block = first_block; planes >= 0 && block < axis.output; ++block) {
          const int64_t row = shift + block * axis.stride;
          if (row >= last) break;
          table.add_runs(x, type,
                         tap * last_.kernel * tap_stride + (planes * axis.output + block) * last_.output,
                         tap_stride, runs_.data(), last_.kernel, to + (row - begin) * row_floats());
        }
        first = last;
      }
    if (!is_one_line())
      for (int64_t row = 0; row < end - begin; ++row)
        interleave(lines + row * row_floats(), sum + row * width());
  }

 private:
  bool is_one_line() const { return last_.stride == 1; }
  int64_t line_count() const { return std::min(last_.stride, std::max<int64_t>(1, last_.input)); }
  int64_t row_floats() const { return line_count() * line_; }
  static int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? 0 : (a - 1) / b + 1; }

  // Pixels block * stride + shift of tap k: element (block + shift / stride) of line shift % stride.
  TapRun run_of(int64_t k) const {
    const int64_t shift = k * last_.dilation - last_.pad_begin;
    const auto [first, end] = outputs_inside(last_, k);
    if (first >= end) return {};
    const int64_t pixel = first * last_.stride + shift;
    return {.from = first, .to = pixel % last_.stride * line_ + pixel / last_.stride, .count = end - first};
  }
  void interleave(const float* lines, float* row) const {
    const int64_t whole = last_.input / last_.stride, rest = last_.input % last_.stride;
    transpose_4byte_avx2(lines, line_, row, last_.stride, line_count(), whole);
    for (int64_t i = 0; i < rest; ++i) row[whole * last_.stride + i] = lines[i * line_ + whole];
  }
  int64_t product(int64_t WindowAxis::*extent) const {
    int64_t n = 1;
    for (const WindowAxis& axis : outer_) n *= axis.*extent;
    return n;
  }
  // Which block reaches index `index` of the dims before the last two with tap `tap` of these; -1: none.
  int64_t block_of(int64_t index, int64_t tap) const {
    int64_t block = 0, stride = 1;
    for (size_t d = outer_.size() - 1; d-- > 0;) {
      const WindowAxis& axis = outer_[d];
      const int64_t from = index % axis.input + axis.pad_begin - tap % axis.kernel * axis.dilation;
      if (from < 0 || from % axis.stride != 0 || from / axis.stride >= axis.output) return -1;
      block += from / axis.stride * stride;
      stride *= axis.output;
      index /= axis.input;
      tap /= axis.kernel;
    }
    return block;
  }

  WindowAxis last_;
  std::vector<WindowAxis> outer_;  // the axes before it, one at least
  int64_t line_ = 0;
  std::vector<TapRun> runs_;
};

}  // namespace lathe::cpu
