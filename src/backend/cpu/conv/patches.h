// SPDX-License-Identifier: Apache-2.0
//
// Which pixels the taps of a convolution read, in any number of dims: for a panel of consecutive output
// positions (row-major over all dims) and a tap, a run for each row of the output that the panel meets.
//
// Panel of 8 over an output of 5 columns, tap 0 of three with one column of padding: positions 5..12 are row
// 1 and the first three of row 2. The run of row 1 begins at column 1 of the panel: its first position
// reads padding. It has the pixels 0..3 of input row 1; that of row 2 begins at column 6 and has two.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "backend/cpu/conv/patch_table.h"
#include "ops/window_range.h"

namespace lathe::cpu {

class Patches {
 public:
  static constexpr size_t kMostAxes = 8;

  explicit Patches(std::vector<WindowAxis> axes) : outer_(std::move(axes)) {
    last_ = outer_.back();
    outer_.pop_back();
    const int64_t count = taps();
    for (int64_t t = 0; t < count; ++t) {
      const auto [begin, end] = outputs_inside(last_, t % last_.kernel);
      taps_.push_back({t % last_.kernel * last_.dilation - last_.pad_begin, begin, end});
      int64_t rest = t / last_.kernel;
      for (size_t d = outer_.size(); d-- > 0; rest /= outer_[d].kernel)
        taps_.back().shift[d] = rest % outer_[d].kernel * outer_[d].dilation - outer_[d].pad_begin;
    }
  }

  int64_t taps() const { return product(&WindowAxis::kernel) * last_.kernel; }
  int64_t pixels() const { return product(&WindowAxis::input) * last_.input; }
  int64_t positions() const { return product(&WindowAxis::output) * last_.output; }
  // Of a row of the output.
  int64_t columns() const { return std::max<int64_t>(1, last_.output); }
  // The most runs of a tap in a panel of `width` positions.
  int64_t most_runs(int64_t width) const { return width / std::max<int64_t>(1, last_.output) + 2; }

  // Writes the runs of taps [tap, tap + taps) for positions [first, first + width), most_runs(width) places
  // for each tap, and how many there are. Says in `covers` which taps read no padding.
  void find(int64_t first, int64_t width, int64_t tap, int64_t taps, PatchRun* runs, PatchRuns* found) const {
    const int64_t places = most_runs(width), end = std::min(first + width, positions());
    std::array<int64_t, kMostAxes> corner{};
    for (int64_t t = 0; t < taps; ++t)
      found[t] = {.runs = runs + t * places, .count = 0, .step = last_.stride, .covers = false};
    for (int64_t at = first; at < end;) {
      const int64_t row = at / last_.output, column = at - row * last_.output;
      const int64_t n = std::min(last_.output - column, end - at);
      int64_t rest = row;
      for (size_t d = outer_.size(); d-- > 0; rest /= outer_[d].output)
        corner[d] = rest % outer_[d].output * outer_[d].stride;
      for (int64_t t = 0; t < taps; ++t) {
        const Tap& reads = taps_[static_cast<size_t>(tap + t)];
        const int64_t begin = std::max(reads.begin, column), stop = std::min(reads.end, column + n);
        const int64_t line = begin < stop ? line_of(corner, reads) : -1;
        if (line < 0) continue;
        add_run(line * last_.input + reads.start + begin * last_.stride, at - first + begin - column,
                stop - begin, runs + t * places, found[t].count);
      }
      at += n;
    }
    for (int64_t t = 0; t < taps; ++t) {
      int64_t columns = 0;
      for (int64_t r = 0; r < found[t].count; ++r) columns += found[t].runs[r].count;
      found[t].covers = columns == width;
    }
  }

 private:
  struct Tap {
    int64_t start = 0;                       // the pixel of a row that column 0 reads
    int64_t begin = 0, end = 0;              // columns that read inside of a row
    std::array<int64_t, kMostAxes> shift{};  // along the outer axes
  };

  // A run that goes on where the one before ended is part of it: rows without padding.
  void add_run(int64_t from, int64_t to, int64_t columns, PatchRun* runs, int64_t& count) const {
    if (count > 0) {
      PatchRun& before = runs[count - 1];
      if (before.to + before.count == to && before.from + before.count * last_.stride == from) {
        before.count += static_cast<int32_t>(columns);
        return;
      }
    }
    runs[count++] = {from, static_cast<int32_t>(to), static_cast<int32_t>(columns)};
  }
  int64_t product(int64_t WindowAxis::*extent) const {
    int64_t n = 1;
    for (const WindowAxis& axis : outer_) n *= axis.*extent;
    return n;
  }
  // The input's row that a tap reads; -1: it reads padding.
  int64_t line_of(const std::array<int64_t, kMostAxes>& corner, const Tap& tap) const {
    int64_t line = 0;
    for (size_t d = 0; d < outer_.size(); ++d) {
      const int64_t at = corner[d] + tap.shift[d];
      if (at < 0 || at >= outer_[d].input) return -1;
      line = line * outer_[d].input + at;
    }
    return line;
  }

  WindowAxis last_;
  std::vector<WindowAxis> outer_;  // the axes before it
  std::vector<Tap> taps_;
};

}  // namespace lathe::cpu
