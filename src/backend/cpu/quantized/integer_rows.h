// SPDX-License-Identifier: Apache-2.0
//
// The rows of a product of bytes: those of a matrix, or the windows of a channels-last image, as runs for the
// kernels of tile/integer_table.h. No window is written down: its row is where its first tap lies, and the
// segments of k say how far from there the other taps are. What is copied is the image, where it has a border
// or its bytes are widened.
#pragma once

#include <vector>

#include "backend/cpu/tile/integer_table.h"
#include "ops/window.h"

namespace lathe::cpu {

// Integers of k in each piece of a row that lies in one piece: the taps of a line where they are neighbours,
// else each tap. For a matrix: all of them.
std::vector<int64_t> segment_lengths(const std::vector<int64_t>& kernel,
                                     const std::vector<int64_t>& dilations, int64_t group_channels,
                                     int64_t groups);
// Groups that a kernel takes for so many integers, padding included.
int64_t padded_groups(const IntegerTable& table, int64_t length);

class IntegerRows {
 public:
  // A matrix of `count` rows.
  IntegerRows(const IntegerTable& table, int64_t count, int64_t depth, uint8_t zero);
  // The windows of `batch` images, one for each result.
  IntegerRows(const IntegerTable& table, int64_t batch, std::vector<WindowAxis> axes, int64_t channels,
              int64_t groups, uint8_t zero);

  int64_t count() const { return count_; }
  // What members and blocks share out: some rows of a matrix, or all results of one place along the outermost
  // axis of an image.
  int64_t units() const { return images_ * units_per_image_; }
  // Of so many units, at most.
  int64_t rows(int64_t units) const { return units * unit_rows_; }
  int64_t runs(int64_t units) const { return units * unit_runs_ + images(units); }
  int64_t copied_bytes(int64_t units) const;
  int64_t input_bytes(int64_t units) const { return units * unit_input_bytes_; }
  int64_t first_row(int64_t unit) const;

  int64_t stride() const { return stride_; }  // bytes between the rows of a run
  const std::vector<IntegerSegment>& segments() const { return segments_; }
  int64_t group_offset(int64_t group) const { return group * group_channels_ * element_bytes_; }

  // The runs of units [first, first + count), their rows counted from the first one's; how many they are.
  // `copy` has room for copied_bytes(count).
  int64_t collect(const uint8_t* x, int64_t first, int64_t count, std::byte* copy, RowRun* runs) const;

 private:
  int64_t images(int64_t units) const { return (units + units_per_image_ - 2) / units_per_image_ + 1; }
  int64_t collect_matrix(const uint8_t* x, int64_t first, int64_t count, std::byte* copy, RowRun* runs) const;
  int64_t add_runs(const std::byte* at, int64_t row, int64_t rows, RowRun* runs) const;
  // Of one image: places [begin, end) along the outermost axis. Returns the end of the copy.
  std::byte* copy_places(const uint8_t* image, int64_t begin, int64_t end, std::byte* to) const;
  std::byte* copy_lines(const uint8_t* from, size_t axis, std::byte* to) const;
  std::byte* copy(const uint8_t* from, int64_t count, std::byte* to) const;
  std::byte* pad(int64_t count, std::byte* to) const;
  int64_t needed(size_t axis) const;  // positions that windows read, borders included

  const IntegerTable& table_;
  uint8_t zero_ = 0;
  int64_t element_bytes_ = 1;
  bool in_place_ = false;
  int64_t images_ = 1, count_ = 0, depth_ = 1;
  int64_t units_per_image_ = 1, unit_rows_ = 1, unit_runs_ = 1, unit_input_bytes_ = 1;
  int64_t stride_ = 4;
  std::vector<IntegerSegment> segments_;
  // Of windows:
  std::vector<WindowAxis> axes_;
  std::vector<int64_t> steps_;  // bytes from a place of an axis to the next, where rows are read
  int64_t channels_ = 1, group_channels_ = 1;
};

}  // namespace lathe::cpu
