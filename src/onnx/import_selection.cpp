// SPDX-License-Identifier: Apache-2.0
//
// Operators that pick elements by value or position: TopK, NonZero, NonMaxSuppression, OneHot, Trilu, Unique.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

Values add_top_k(NodeImport& node, ValueId k) {
  const TopK op{.axis = normalize_axis(node.integer("axis", -1), node.rank(0), "axis"),
                .largest = node.integer("largest", 1) != 0,
                .sorted = node.integer("sorted", 1) != 0};
  return node.add_multi(op, {node.in(0), k}, 2);
}

Values import_top_k_attribute(NodeImport& node) {
  return add_top_k(node, node.ints_constant({node.required_integer("k")}));
}
Values import_top_k(NodeImport& node) {
  return add_top_k(node, node.in(1));
}

Values import_non_zero(NodeImport& node) {
  return {node.add(NonZero{}, {node.in(0)})};
}

Values import_nms(NodeImport& node) {
  const NonMaxSuppression op{.center_point_box = node.integer("center_point_box", 0) != 0};
  return {node.add(op, {node.in(0), node.in(1), node.in_or_none(2), node.in_or_none(3), node.in_or_none(4)})};
}

Values import_one_hot(NodeImport& node) {
  return {node.add(OneHot{.axis = node.integer("axis", -1)}, {node.in(0), node.in(1), node.in(2)})};
}

Values import_trilu(NodeImport& node) {
  return {node.add(Trilu{.upper = node.integer("upper", 1) != 0}, {node.in(0), node.in_or_none(1)})};
}

Values import_unique(NodeImport& node) {
  Unique op{.sorted = node.integer("sorted", 1) != 0};
  if (node.has_attribute("axis")) op.axis = Ints{node.integer("axis", 0)};
  return node.add_multi(op, {node.in(0)}, 4);
}

}  // namespace

std::vector<Importer> selection_importers() {
  return {{"NonMaxSuppression", 10, kLatestOpset, import_nms},
          {"NonZero", 9, kLatestOpset, import_non_zero},
          {"OneHot", 9, kLatestOpset, import_one_hot},
          {"TopK", 1, 9, import_top_k_attribute},
          {"TopK", 10, kLatestOpset, import_top_k},
          {"Trilu", 14, kLatestOpset, import_trilu},
          {"Unique", 11, kLatestOpset, import_unique}};
}

}  // namespace lathe::onnx
