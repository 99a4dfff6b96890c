// SPDX-License-Identifier: Apache-2.0
//
// Operators that keep all elements and change the shape: Reshape, Flatten, Squeeze, Unsqueeze, Transpose, and
// the block moves.
#include <algorithm>
#include <numeric>
#include <set>

#include "onnx/importers.h"
#include "onnx/runtime_axes.h"

namespace lathe::onnx {

namespace {

// The dim that stands for -1: all elements over the others' product. Where the algebra cannot show that it
// divides, the quotient is rounded down and the element count is checked when shapes are known.
Dim inferred_dim(const NodeImport& node, const Shape& from, const Shape& to, size_t hole) {
  Dim rest = 1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (i != hole) rest = rest * to[i];
  }
  const Dim count = element_count(from);
  if (rest.is_constant(0)) return 0;
  if (const auto exact = count.exact_div(rest)) return *exact;
  if (count.is_constant() && rest.is_constant()) {
    node.fail("cannot reshape " + to_string(from) + " to " + to_string(to) + ": " + count.to_string() +
              " elements are no multiple of " + rest.to_string());
  }
  return floor_div(count, rest);
}

Values import_reshape(NodeImport& node) {
  const bool allow_zero = node.integer("allowzero", 0) != 0;
  const auto wanted = node.contents(1);
  if (!wanted) return {node.add(ReshapeOp{.allow_zero = allow_zero}, {node.in(0), node.in(1)})};
  const Shape from = node.shape(0);
  Shape to = *wanted;
  std::optional<size_t> hole;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].is_constant(0) && !allow_zero) {
      if (i >= from.size())
        node.fail("dimension " + std::to_string(i) + " is 0 (copy) but the input has no such dimension");
      to[i] = from[i];
    } else if (to[i].is_constant(-1)) {
      if (hole) node.fail("more than one dimension is -1 in " + to_string(to));
      hole = i;
    } else if (to[i].is_constant() && to[i].value() < -1) {
      node.fail("dimension " + std::to_string(i) + " is " + to[i].to_string());
    }
  }
  if (hole) to[*hole] = inferred_dim(node, from, to, *hole);
  return {node.add(ReshapeOp{.shape = to}, {node.in(0)})};
}

Values import_flatten(NodeImport& node) {
  const Shape shape = node.shape(0);
  const int64_t rank = node.rank(0);
  int64_t axis = node.integer("axis", 1);
  if (axis < -rank || axis > rank) node.fail("axis is " + std::to_string(axis));
  if (axis < 0) axis += rank;
  const auto middle = shape.begin() + axis;
  const Shape flat = {element_count(Shape(shape.begin(), middle)), element_count(Shape(middle, shape.end()))};
  return {node.add(ReshapeOp{.shape = flat}, {node.in(0)})};
}

std::set<int64_t> normalized(const NodeImport& node, const Ints& axes, int64_t rank) {
  std::set<int64_t> result;
  for (const int64_t a : axes) {
    if (!result.insert(normalize_axis(a, rank, "axes")).second)
      node.fail("axis " + std::to_string(a) + " is given twice");
  }
  return result;
}

// Axes are an input that only a run knows.
bool has_runtime_axes(const NodeImport& node) {
  return !node.has_attribute("axes") && node.has(1) && !node.known_ints(1);
}

Values import_squeeze(NodeImport& node) {
  if (has_runtime_axes(node)) return {squeeze_at_run_time(node)};
  const Shape shape = node.shape(0);
  const auto axes = node.ints_or_input("axes", 1);
  const std::set<int64_t> chosen = normalized(node, axes.value_or(Ints()), node.rank(0));
  Shape to;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool squeeze = axes ? chosen.contains(static_cast<int64_t>(i)) : shape[i].is_constant(1);
    if (squeeze && shape[i].is_constant() && !shape[i].is_constant(1)) {
      node.fail("cannot squeeze dimension " + std::to_string(i) + " of " + to_string(shape) +
                ", which is not 1");
    }
    if (!squeeze) to.push_back(shape[i]);
  }
  return {node.add(ReshapeOp{.shape = to}, {node.in(0)})};
}

Values import_unsqueeze(NodeImport& node) {
  if (has_runtime_axes(node)) return {unsqueeze_at_run_time(node)};
  const auto axes = node.ints_or_input("axes", 1);
  if (!axes) node.fail("axes are missing");
  const int64_t rank = node.rank(0) + static_cast<int64_t>(axes->size());
  const std::set<int64_t> ones = normalized(node, *axes, rank);
  Shape to;
  size_t from = 0;
  for (int64_t i = 0; i < rank; ++i) to.push_back(ones.contains(i) ? Dim(1) : node.shape(0)[from++]);
  return {node.add(ReshapeOp{.shape = to}, {node.in(0)})};
}

Values import_transpose(NodeImport& node) {
  Ints reversed(static_cast<size_t>(node.rank(0)));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  Ints perm = node.ints("perm").value_or(Ints());
  if (perm.empty()) perm = reversed;
  Ints sorted = perm;
  std::sort(sorted.rbegin(), sorted.rend());
  if (sorted != reversed)
    node.fail("perm " + to_string(Extents(perm)) + " is no order of the input's dimensions");
  return {node.add(Transpose{.perm = perm}, {node.in(0)})};
}

Values add_block_move(NodeImport& node, bool inverse) {
  const std::string mode = node.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") node.fail("mode is '" + mode + "', not 'DCR' or 'CRD'");
  const DepthToSpace op{
      .block = node.required_integer("blocksize"), .crd = mode == "CRD", .inverse = inverse};
  return {node.add(op, {node.in(0)})};
}

Values import_depth_to_space(NodeImport& node) {
  return add_block_move(node, false);
}
Values import_space_to_depth(NodeImport& node) {
  return add_block_move(node, true);
}

}  // namespace

std::vector<Importer> reshape_importers() {
  return {{"DepthToSpace", 1, kLatestOpset, import_depth_to_space},
          {"Flatten", 1, kLatestOpset, import_flatten},
          {"Reshape", 5, kLatestOpset, import_reshape},
          {"SpaceToDepth", 1, kLatestOpset, import_space_to_depth},
          {"Squeeze", 1, kLatestOpset, import_squeeze},
          {"Transpose", 1, kLatestOpset, import_transpose},
          {"Unsqueeze", 1, kLatestOpset, import_unsqueeze}};
}

}  // namespace lathe::onnx
