// SPDX-License-Identifier: Apache-2.0
//
// The rows of a product of bytes: those of a matrix, or the windows of a channels-last image, collected for
// the kernels of tile/integer_table.h.
#pragma once

#include <vector>

#include "backend/cpu/tile/integer_table.h"
#include "ops/window.h"

namespace lathe::cpu {

class IntegerRows {
 public:
  // A matrix of `count` rows.
  IntegerRows(const IntegerTable& table, int64_t count, int64_t depth, uint8_t zero);
  // The windows of `batch` images, one for each result. A row has the taps of the window in their order, and
  // the channels of its group for each.
  IntegerRows(const IntegerTable& table, int64_t batch, std::vector<WindowAxis> axes, int64_t channels,
              int64_t groups, uint8_t zero);

  int64_t count() const { return count_; }
  int64_t bytes() const { return row_bytes_; }  // of a collected row, padding included
  // Rows lie in memory as the kernel reads them: nothing needs to be collected.
  bool in_place() const { return in_place_; }
  // Rows [first, first + count) of `group`, one behind the other.
  void collect(const uint8_t* x, int64_t first, int64_t count, int64_t group, std::byte* to) const;

 private:
  // Where one window is: its image, and the position of its first tap along each axis.
  struct Place {
    int64_t image = 0;
    int64_t at[3] = {};
  };
  Place place_of(int64_t row) const;
  void collect_window(const uint8_t* x, const Place& place, int64_t group, std::byte* to) const;
  std::byte* collect_line(const uint8_t* line, int64_t left, int64_t group, std::byte* to) const;
  std::byte* copy(const uint8_t* from, int64_t count, std::byte* to) const;
  std::byte* pad(int64_t count, std::byte* to) const;

  const IntegerTable& table_;
  uint8_t zero_ = 0;
  int64_t count_ = 0, depth_ = 1, row_bytes_ = 4;
  int64_t element_bytes_ = 1;
  bool in_place_ = false;
  std::vector<WindowAxis> axes_;
  int64_t channels_ = 1, group_channels_ = 1, lines_ = 1;  // lines_: taps of all axes but the last
};

}  // namespace lathe::cpu
