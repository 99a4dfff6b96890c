// SPDX-License-Identifier: Apache-2.0
//
// The geometry of a sliding window (convolution and pooling): output extents, symbolic or concrete, and the
// pads that auto_pad stands for.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "ir/shape.h"

namespace lathe {

// One spatial axis at concrete extents. Input position of tap k of output o: o * stride - pad_begin + k *
// dilation.
struct WindowAxis {
  int64_t input = 0, output = 0;
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t pad_begin = 0, pad_end = 0;  // resolved: auto_pad is gone
};

// What Conv and Pool have in common. Empty strides, dilations and pads stand for 1, 1 and 0.
struct WindowSpec {
  const Ints &kernel, &strides, &dilations, &pads_begin, &pads_end;
  AutoPad auto_pad = AutoPad::NotSet;
  bool ceil_mode = false;
};

// An entry of a list of strides, dilations or pads, which may be empty.
int64_t entry_or(const Ints& list, size_t i, int64_t otherwise);
// Throws Input unless every list has `rank` entries of legal size.
void check_window(const WindowSpec& spec, size_t rank, std::string_view what);
// Spatial dims of the result. A window that starts in the padding after the data does not count (ceil_mode).
Shape window_output(const WindowSpec& spec, const Shape& input);
// Throws Input when the window does not fit into the padded input.
std::vector<WindowAxis> resolve_window(const WindowSpec& spec, const Extents& input);

}  // namespace lathe
