// SPDX-License-Identifier: Apache-2.0
//
// The taps of one output position along one axis of a pooling window.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/window.h"

namespace lathe::cpu {

struct Span {
  int64_t first = 0, count = 0;  // taps inside the data: the first one's input position, how many
  int64_t padded = 0;            // taps inside data and padding (count_include_pad)
};

inline Span span_of(const WindowAxis& a, int64_t output) {
  const int64_t start = output * a.stride - a.pad_begin;
  // How many taps lie before `position`. Computed: a window may have more taps than the axis has elements.
  const auto taps_before = [&](int64_t position) {
    const int64_t distance = position - start;
    return distance <= 0 ? 0 : std::min(a.kernel, (distance - 1) / a.dilation + 1);
  };
  const int64_t begin = taps_before(0);
  return {start + begin * a.dilation, taps_before(a.input) - begin, taps_before(a.input + a.pad_end)};
}

}  // namespace lathe::cpu
