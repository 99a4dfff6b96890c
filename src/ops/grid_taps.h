// SPDX-License-Identifier: Apache-2.0
//
// What GridSample reads along one dim, for the oracle and for kernels.
#pragma once

#include <cstdint>

#include "ir/op.h"

namespace lathe {

// Pixels inside of the image, and what each counts. Those of weight 0 are not read.
struct GridTaps {
  int count = 0;
  int64_t index[4] = {};
  double weight[4] = {};
};
// `normalized` is what the grid says, -1 to 1 over the `extent` (at least 1) pixels of the dim.
GridTaps grid_taps(const GridSample& op, double normalized, int64_t extent);

}  // namespace lathe
