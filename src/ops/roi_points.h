// SPDX-License-Identifier: Apache-2.0
//
// Which pixels a box of RoiAlign or MaxRoiPool reads, for the oracle and for kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/op.h"

namespace lathe {

// Where a point reads along one dim: the pixels `low` and `high`, the second with weight `fraction`.
struct RoiPair {
  int64_t low = 0, high = 0;
  double fraction = 0;
};

// One dim of a bin of RoiAlign: its points that are inside of the image. A box may be any size: only those
// are walked.
struct RoiPoints {
  std::vector<RoiPair> pairs;
  double count = 0;  // those outside included, which read zeros
};
// Bin number `index` of `bins` in a box from `low` to `high` (finite), along a dim of `extent` pixels.
void find_roi_points(const RoiAlign& op, double low, double high, int64_t index, int64_t bins, int64_t extent,
                     RoiPoints& points);

// Pixels [begin, end) of bin `index` of `bins` of MaxRoiPool in a box from `low` to `high`, both included.
struct RoiSpan {
  int64_t begin = 0, end = 0;
};
RoiSpan roi_span(double low, double high, float scale, int64_t index, int64_t bins, int64_t extent);

// Throws Input unless the image of box `roi` is one of `images`.
int64_t checked_roi_image(double index, int64_t roi, int64_t images);

}  // namespace lathe
