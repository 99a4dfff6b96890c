// SPDX-License-Identifier: Apache-2.0
#include "onnx/window.h"

#include <algorithm>

namespace lathe::onnx {

namespace {

void check_range(const NodeImport& node, std::string_view name, const Ints& values, int64_t low) {
  for (const int64_t v : values) {
    if (v < low || v > (int64_t{1} << 31))
      node.fail(std::string(name) + " has the entry " + std::to_string(v));
  }
}

AutoPad read_auto_pad(const NodeImport& node) {
  const std::string text = node.text("auto_pad", "NOTSET");
  if (text == "NOTSET" || text.empty()) return AutoPad::NotSet;
  if (text == "SAME_UPPER") return AutoPad::SameUpper;
  if (text == "SAME_LOWER") return AutoPad::SameLower;
  if (text == "VALID") return AutoPad::Valid;
  node.fail("auto_pad is '" + text + "', not NOTSET, SAME_UPPER, SAME_LOWER or VALID");
}

}  // namespace

size_t spatial_dims(const NodeImport& node) {
  if (node.rank(0) < 3) node.fail("its input needs at least three dimensions (batch, channels, space)");
  return static_cast<size_t>(node.rank(0)) - 2;
}

Ints read_spatial(const NodeImport& node, std::string_view name, size_t dims, int64_t otherwise) {
  Ints values = node.ints(name).value_or(Ints());
  if (values.empty()) values.assign(dims, otherwise);
  if (values.size() != dims) {
    node.fail(std::string(name) + " has " + std::to_string(values.size()) + " entries for " +
              std::to_string(dims) + " spatial dimensions");
  }
  return values;
}

Window read_window(const NodeImport& node, size_t dims) {
  Window w;
  w.auto_pad = read_auto_pad(node);
  w.strides = read_spatial(node, "strides", dims, 1);
  w.dilations = read_spatial(node, "dilations", dims, 1);
  check_range(node, "strides", w.strides, 1);
  check_range(node, "dilations", w.dilations, 1);
  const Ints pads =
      w.auto_pad == AutoPad::NotSet ? read_spatial(node, "pads", 2 * dims, 0) : Ints(2 * dims, 0);
  check_range(node, "pads", pads, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(dims);
  w.pads_begin.assign(pads.begin(), middle);
  w.pads_end.assign(middle, pads.end());
  return w;
}

}  // namespace lathe::onnx
