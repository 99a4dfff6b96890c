// SPDX-License-Identifier: Apache-2.0
//
// Concat, Split, Tile, Expand.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

Values import_concat(NodeImport& node) {
  if (node.input_count() == 0) node.fail("Concat needs an input");
  for (size_t i = 0; i < node.input_count(); ++i) node.in(i);
  const int64_t axis = normalize_axis(node.integer("axis", 1), node.rank(0), "axis");
  return {node.add(Concat{.axis = axis}, node.inputs())};
}

// Equal parts; when the dim does not divide, the last is smaller.
Shape equal_parts(const NodeImport& node, const Dim& dim, int64_t parts) {
  if (const auto exact = dim.exact_div(parts)) return Shape(static_cast<size_t>(parts), *exact);
  if (node.opset() < 18) {
    node.fail("cannot split a dimension of " + dim.to_string() + " into " + std::to_string(parts) +
              " equal parts");
  }
  const Dim part = ceil_div(dim, parts);
  Shape sizes(static_cast<size_t>(parts), part);
  sizes.back() = dim - part * (parts - 1);
  if (sizes.back().is_constant() && sizes.back().value() < 0) {
    node.fail("cannot split a dimension of " + dim.to_string() + " into " + std::to_string(parts) + " parts");
  }
  return sizes;
}

Values import_split(NodeImport& node) {
  const int64_t axis = normalize_axis(node.integer("axis", 0), node.rank(0), "axis");
  const Dim dim = node.shape(0)[static_cast<size_t>(axis)];
  const auto outputs = static_cast<int64_t>(node.output_count());
  if (outputs == 0) node.fail("Split has no outputs");
  Shape sizes;
  if (const auto attribute = node.ints("split")) {
    for (const int64_t s : *attribute) sizes.push_back(s);
  } else if (node.has(1)) {  // in opset 1, too
    const auto known = node.contents(1);
    if (!known)
      throw_unsupported("the sizes of its parts are computed while the model runs; they must be constant");
    sizes = *known;
  } else {
    sizes = equal_parts(node, dim, node.integer("num_outputs", outputs));
  }
  if (static_cast<int64_t>(sizes.size()) != outputs) {
    node.fail("there are " + std::to_string(sizes.size()) + " sizes for " + std::to_string(outputs) +
              " outputs");
  }
  return node.add_multi(Split{.axis = axis, .sizes = sizes}, {node.in(0)}, sizes.size());
}

Values import_tile(NodeImport& node) {
  if (const auto repeats = node.contents(1)) return {node.add(Tile{.repeats = *repeats}, {node.in(0)})};
  return {node.add(Tile{}, {node.in(0), node.in(1)})};
}

Values import_expand(NodeImport& node) {
  if (const auto shape = node.contents(1)) return {node.add(Expand{.shape = *shape}, {node.in(0)})};
  return {node.add(Expand{}, {node.in(0), node.in(1)})};
}

}  // namespace

std::vector<Importer> concat_importers() {
  return {{"Concat", 1, kLatestOpset, import_concat},
          {"Expand", 8, kLatestOpset, import_expand},
          {"Split", 1, kLatestOpset, import_split},
          {"Tile", 6, kLatestOpset, import_tile}};
}

}  // namespace lathe::onnx
