// SPDX-License-Identifier: Apache-2.0
//
// Which outputs of a sliding window read data, seen from a tap.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/window.h"

namespace lathe {

struct OutputRange {
  int64_t begin = 0, end = 0;
};

// Outputs [begin, end) whose tap `tap` reads the input, not padding; empty where begin >= end. Tap 0 of three
// with stride 2 and one element of padding reads input 2 * output - 1, so that output 0 is not among them.
inline OutputRange outputs_inside(const WindowAxis& axis, int64_t tap) {
  const int64_t start = tap * axis.dilation - axis.pad_begin;  // what output 0 reads
  // How many outputs read what lies before `position`.
  const auto outputs_before = [&](int64_t position) {
    const int64_t distance = position - start;
    return distance <= 0 ? 0 : std::min(axis.output, (distance - 1) / axis.stride + 1);
  };
  return {outputs_before(0), outputs_before(axis.input)};
}

}  // namespace lathe
