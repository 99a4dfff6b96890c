// SPDX-License-Identifier: Apache-2.0
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

ScatterReduction read_reduction(const NodeImport& node) {
  const std::string text = node.text("reduction", "none");
  if (text == "none") return ScatterReduction::None;
  if (text == "add") return ScatterReduction::Add;
  if (text == "mul") return ScatterReduction::Mul;
  if (text == "min") return ScatterReduction::Min;
  if (text == "max") return ScatterReduction::Max;
  node.fail("reduction is '" + text + "', not none, add, mul, min or max");
}

Values import_gather(NodeImport& node) {
  const int64_t axis = normalize_axis(node.integer("axis", 0), node.rank(0), "axis");
  return {node.add(Gather{.axis = axis}, {node.in(0), node.in(1)})};
}

Values import_gather_elements(NodeImport& node) {
  const int64_t axis = normalize_axis(node.integer("axis", 0), node.rank(0), "axis");
  return {node.add(GatherElements{.axis = axis}, {node.in(0), node.in(1)})};
}

Values import_gather_nd(NodeImport& node) {
  return {node.add(GatherND{.batch_dims = node.integer("batch_dims", 0)}, {node.in(0), node.in(1)})};
}

Values import_scatter_elements(NodeImport& node) {
  const int64_t axis = normalize_axis(node.integer("axis", 0), node.rank(0), "axis");
  return {node.add(ScatterElements{.axis = axis, .reduction = read_reduction(node)},
                   {node.in(0), node.in(1), node.in(2)})};
}

Values import_scatter_nd(NodeImport& node) {
  return {node.add(ScatterND{.reduction = read_reduction(node)}, {node.in(0), node.in(1), node.in(2)})};
}

// The elements where a condition holds: the positions of true, gathered.
Values import_compress(NodeImport& node) {
  if (node.rank(1) != 1) node.fail("the condition has rank " + std::to_string(node.rank(1)) + ", expected 1");
  ValueId x = node.in(0);
  int64_t axis = 0;
  if (node.has_attribute("axis")) {
    axis = normalize_axis(node.integer("axis", 0), node.rank(0), "axis");
  } else {
    x = node.reshape(x, {element_count(node.shape(0))}, "flatten");
  }
  const ValueId positions = node.add(NonZero{}, {node.in(1)}, "positions");
  const Dim count = node.shape_of(positions)[1];
  return {node.add(Gather{.axis = axis}, {x, node.reshape(positions, {count}, "indices")})};
}

}  // namespace

std::vector<Importer> gather_importers() {
  return {{"Compress", 9, kLatestOpset, import_compress},
          {"Gather", 1, kLatestOpset, import_gather},
          {"GatherElements", 11, kLatestOpset, import_gather_elements},
          {"GatherND", 11, kLatestOpset, import_gather_nd},
          {"Scatter", 9, 10, import_scatter_elements},
          {"ScatterElements", 11, kLatestOpset, import_scatter_elements},
          {"ScatterND", 11, kLatestOpset, import_scatter_nd}};
}

}  // namespace lathe::onnx
