// SPDX-License-Identifier: Apache-2.0
//
// Sliding window geometry, see window.h. Formulas as in ONNX's Conv, MaxPool and AveragePool.

#include "ops/window.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace lathe {

namespace {

// What libraries count with. Sums of a few such numbers stay far from overflow.
constexpr int64_t kMostSteps = std::numeric_limits<int32_t>::max();

void check_list(const Ints& list, size_t rank, int64_t least, std::string_view name, std::string_view what) {
  if (!list.empty() && list.size() != rank) {
    throw_input_error(std::string(what) + " has " + std::to_string(list.size()) + " " + std::string(name) +
                      " for " + std::to_string(rank) + " spatial dims");
  }
  for (int64_t value : list) {
    if (value < least || value > kMostSteps) {
      throw_input_error(std::string(name) + " of " + std::string(what) + " holds " + std::to_string(value) +
                        ", expected " + std::to_string(least) + " to " + std::to_string(kMostSteps));
    }
  }
}

}  // namespace

int64_t entry_or(const Ints& list, size_t i, int64_t otherwise) {
  return i < list.size() ? list[i] : otherwise;
}

void check_window(const WindowSpec& spec, size_t rank, std::string_view what) {
  if (spec.kernel.size() != rank) {
    throw_input_error(std::string(what) + " has a kernel of " + std::to_string(spec.kernel.size()) +
                      " dims for " + std::to_string(rank) + " spatial dims");
  }
  check_list(spec.kernel, rank, 1, "kernel", what);
  check_list(spec.strides, rank, 1, "strides", what);
  check_list(spec.dilations, rank, 1, "dilations", what);
  // Negative pads crop; ONNX does not forbid them.
  check_list(spec.pads_begin, rank, -kMostSteps, "pads", what);
  check_list(spec.pads_end, rank, -kMostSteps, "pads", what);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t reach = (spec.kernel[i] - 1) * entry_or(spec.dilations, i, 1) + 1;
    if (reach > kMostSteps)
      throw_input_error(std::string(what) + ": a kernel of " + std::to_string(spec.kernel[i]) +
                        " with a dilation of " + std::to_string(entry_or(spec.dilations, i, 1)) +
                        " reaches " + std::to_string(reach) + " elements, more than " +
                        std::to_string(kMostSteps));
  }
}

Shape window_output(const WindowSpec& spec, const Shape& input) {
  Shape output;
  for (size_t i = 0; i < input.size(); ++i) {
    const int64_t stride = entry_or(spec.strides, i, 1);
    const int64_t reach = (spec.kernel[i] - 1) * entry_or(spec.dilations, i, 1) + 1;
    if (spec.auto_pad == AutoPad::SameUpper || spec.auto_pad == AutoPad::SameLower) {
      output.push_back(ceil_div(input[i], Dim(stride)));
      continue;
    }
    const bool padded = spec.auto_pad == AutoPad::NotSet;
    const int64_t begin = padded ? entry_or(spec.pads_begin, i, 0) : 0,
                  end = padded ? entry_or(spec.pads_end, i, 0) : 0;
    const Dim room = input[i] + Dim(begin + end - reach);
    if (!spec.ceil_mode) {
      output.push_back(floor_div(room, Dim(stride)) + Dim(1));
    } else {
      const Dim last_inside = floor_div(input[i] + Dim(begin - 1), Dim(stride)) + Dim(1);
      const Dim rounded_up = ceil_div(room, Dim(stride)) + Dim(1);
      // Where rounding up can never pass the data, the simpler form stays.
      output.push_back(end == 0 && reach >= stride ? rounded_up : min(rounded_up, last_inside));
    }
  }
  return output;
}

std::vector<WindowAxis> resolve_window(const WindowSpec& spec, const Extents& input) {
  const Extents output = to_extents(window_output(spec, to_shape(input)));
  std::vector<WindowAxis> axes;
  for (size_t i = 0; i < input.size(); ++i) {
    WindowAxis axis{input[i], output[i], spec.kernel[i], entry_or(spec.strides, i, 1),
                    entry_or(spec.dilations, i, 1)};
    const int64_t reach = (axis.kernel - 1) * axis.dilation + 1;
    if (axis.input > kMostSteps)
      throw_input_error("spatial dim " + std::to_string(i) + " of extent " + std::to_string(axis.input) +
                        " is too large: kernels and their libraries take dims up to " +
                        std::to_string(kMostSteps));
    if (spec.auto_pad == AutoPad::NotSet) {
      axis.pad_begin = entry_or(spec.pads_begin, i, 0);
      axis.pad_end = entry_or(spec.pads_end, i, 0);
    } else if (spec.auto_pad != AutoPad::Valid) {
      const int64_t total = std::max<int64_t>((axis.output - 1) * axis.stride + reach - axis.input, 0);
      axis.pad_begin = spec.auto_pad == AutoPad::SameUpper ? total / 2 : total - total / 2;
      axis.pad_end = total - axis.pad_begin;
    }
    const bool fits = axis.input + axis.pad_begin + axis.pad_end >= reach;
    if (axis.output < 1 || (!fits && !spec.ceil_mode)) {
      throw_input_error("a window of " + std::to_string(reach) + " does not fit into spatial dim " +
                        std::to_string(i) + " of extent " + std::to_string(axis.input) + " with pads " +
                        std::to_string(axis.pad_begin) + " and " + std::to_string(axis.pad_end));
    }
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace lathe
