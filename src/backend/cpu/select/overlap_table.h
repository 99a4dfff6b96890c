// SPDX-License-Identifier: Apache-2.0
//
// Whether a box overlaps any of others, one table per instruction set.
#pragma once

#include <cstdint>
#include <limits>

namespace lathe::cpu {

inline constexpr int64_t kOverlapLanes = 16;  // boxes are kept in multiples of so many

struct NmsBox {
  float top = 0, left = 0, bottom = 0, right = 0, area = 0;
};

// Boxes by coordinate: [top, left, bottom, right, area][room]. Behind the last one up to a multiple of
// kOverlapLanes are some that overlap nothing.
struct NmsBoxes {
  float* memory = nullptr;
  int64_t room = 0;  // a multiple of kOverlapLanes

  static constexpr int64_t kCoordinates = 5;
  void set(int64_t i, const NmsBox& box) {
    const float coordinates[kCoordinates] = {box.top, box.left, box.bottom, box.right, box.area};
    if (i % kOverlapLanes == 0)
      for (int64_t lane = 0; lane < kOverlapLanes; ++lane)
        memory[2 * room + i + lane] = -std::numeric_limits<float>::infinity();
    for (int64_t c = 0; c < kCoordinates; ++c) memory[c * room + i] = coordinates[c];
  }
};

struct OverlapTable {
  // Intersection over union of `box` and one of the first `count` boxes is above `limit`.
  bool (*any)(const NmsBoxes& boxes, int64_t count, const NmsBox& box, float limit);
};

const OverlapTable& overlap_table_avx2();
const OverlapTable& overlap_table_avx512();

}  // namespace lathe::cpu
