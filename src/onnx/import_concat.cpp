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

// The dim as a scalar. When only a run finds it, the layer that does must run first.
ValueId dim_of_input(NodeImport& node, int64_t axis, const Dim& dim) {
  if (!is_data_dependent({dim})) return node.dim_scalar(dim);
  return node.reshape(node.add(ShapeOf{.start = axis, .end = Ints{axis + 1}}, {node.in(0)}, "dim"), {},
                      "length");
}

// Sizes that only a run knows: each part is a slice between running sums. The first place of all parts is
// looked up in a list of one zero, at twice what the sum is off or a size is below zero: an index that is not
// in the list unless the sizes are right.
Values split_at_run_time(NodeImport& node, int64_t axis, const Dim& dim, int64_t outputs) {
  using C = PointwiseCode;
  const ValueId sizes = node.in(1), zero = node.scalar(0, DType::Int64), two = node.scalar(2, DType::Int64);
  const ValueId total = node.reduce(ReduceKind::Sum, sizes, {0}, false, "total");
  const ValueId off = node.pointwise(
      C::Abs, {node.pointwise(C::Sub, {total, dim_of_input(node, axis, dim)}, "difference")}, "off");
  const ValueId least = node.pointwise(
      C::Min, {node.reduce(ReduceKind::Min, sizes, {0}, false, "smallest"), zero}, "below_zero");
  const ValueId wrong =
      node.pointwise(C::Mul, {node.pointwise(C::Sub, {off, least}, "wrong"), two}, "twice_wrong");
  const ValueId first =
      node.add(Gather{.axis = 0}, {node.ints_constant({0}), wrong}, "sizes_add_up_to_the_dim");
  const ValueId ends = node.pointwise(C::Add, {node.add(CumSum{}, {sizes, zero}, "sums"), first}, "ends");
  const ValueId starts = node.pointwise(C::Sub, {ends, sizes}, "starts");
  const ValueId axes = node.ints_constant({axis});
  Values parts;
  for (int64_t i = 0; i < outputs; ++i) {
    const std::string name = "part" + std::to_string(i);
    parts.push_back(node.add(Slice{},
                             {node.in(0), node.slice(starts, 0, i, i + 1, name + "_start"),
                              node.slice(ends, 0, i, i + 1, name + "_end"), axes},
                             name));
  }
  return parts;
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
    if (!known) {
      if (node.rank(1) != 1 || !(node.shape(1)[0] == Dim(outputs)))
        node.fail("the sizes of its parts must be a list of " + std::to_string(outputs));
      return split_at_run_time(node, axis, dim, outputs);
    }
    sizes = *known;
  } else {
    if (const int64_t parts = node.integer("num_outputs", outputs); parts != outputs)
      node.fail("num_outputs is " + std::to_string(parts) + ", the node has " + std::to_string(outputs) +
                " outputs");
    sizes = equal_parts(node, dim, outputs);
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
