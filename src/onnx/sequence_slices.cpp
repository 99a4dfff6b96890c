// SPDX-License-Identifier: Apache-2.0
//
// A slice is put in and taken out by reading all in another order: a position outside of the sequence makes
// that order read a slice which is not there, so that Gather refuses it.
#include "onnx/sequence_slices.h"

#include <string>

#include "onnx/sequence_positions.h"

namespace lathe::onnx {
namespace {

// `order` where the position is in [0, last], else `none`, which no slice has.
ValueId refuse_outside(NodeImport& node, ValueId order, ValueId position, ValueId last, ValueId none) {
  const ValueId negative =
      node.pointwise(PointwiseCode::Less, {position, node.scalar(0, DType::Int64)}, "before");
  const ValueId behind = node.pointwise(PointwiseCode::Greater, {position, last}, "behind");
  const ValueId outside = node.pointwise(PointwiseCode::Or, {negative, behind}, "outside");
  return node.pointwise(PointwiseCode::Where, {outside, none, order}, "order");
}

}  // namespace

ValueId as_slice(GraphBuilder& builder, const Origin& node, ValueId element) {
  Shape shape = builder.value(element).shape;
  shape.insert(shape.begin(), 1);
  return builder.add(node.name + "/slice", ReshapeOp{.shape = shape}, {element}, {node})[0];
}

ValueId stack_slices(GraphBuilder& builder, const Origin& node, const Values& elements) {
  Values parts;
  for (const ValueId element : elements) parts.push_back(as_slice(builder, node, element));
  if (parts.size() == 1) return parts[0];
  return builder.add(node.name + "/slices", Concat{.axis = 0}, parts, {node})[0];
}

ValueId slice_at(NodeImport& node, ValueId slices) {
  return node.add(Gather{.axis = 0}, {slices, one_position(node, 1)});
}

ValueId insert_slice(NodeImport& node, ValueId slices) {
  const ValueId slice = as_slice(node.builder(), node.origin(), node.in(1));
  const ValueId all = node.add(Concat{.axis = 0}, {slices, slice}, "longer");
  if (!node.has(2)) return all;
  const ValueId count = count_and(node, slices, 0), longer = count_and(node, slices, 1);
  const ValueId position = read_position(node, 2, count), places = integers_below(node, longer);
  const ValueId one_less =
      node.pointwise(PointwiseCode::Sub, {places, node.scalar(1, DType::Int64)}, "one_less");
  const ValueId is_new = node.pointwise(PointwiseCode::Equal, {places, position}, "is_new");
  const ValueId is_behind = node.pointwise(PointwiseCode::Greater, {places, position}, "is_behind");
  const ValueId others = node.pointwise(PointwiseCode::Where, {is_behind, one_less, places}, "others");
  const ValueId order = node.pointwise(PointwiseCode::Where, {is_new, count, others}, "with_new");
  return node.add(Gather{.axis = 0}, {all, refuse_outside(node, order, position, count, longer)});
}

ValueId erase_slice(NodeImport& node, ValueId slices) {
  if (!node.has(1)) return node.slice(slices, 0, 0, node.shape_of(slices)[0] - 1);
  const ValueId count = count_and(node, slices, 0), last = count_and(node, slices, -1);
  const ValueId position = read_position(node, 1, count), places = integers_below(node, last);
  const ValueId is_before = node.pointwise(PointwiseCode::Less, {places, position}, "is_before");
  const ValueId one_more =
      node.pointwise(PointwiseCode::Add, {places, node.scalar(1, DType::Int64)}, "one_more");
  const ValueId order = node.pointwise(PointwiseCode::Where, {is_before, places, one_more}, "without");
  return node.add(Gather{.axis = 0}, {slices, refuse_outside(node, order, position, last, count)});
}

// Along a new axis, or one behind the other along one that they have.
ValueId join_slices(NodeImport& node, ValueId slices) {
  const bool new_axis = node.integer("new_axis", 0) != 0;
  const Shape shape = node.shape_of(slices);
  const auto rank = static_cast<int64_t>(shape.size()) - (new_axis ? 0 : 1);
  const int64_t axis = normalize_axis(node.required_integer("axis"), rank, "axis");
  Ints perm;
  for (int64_t d = 1; d < static_cast<int64_t>(shape.size()); ++d) perm.push_back(d);
  perm.insert(perm.begin() + axis, 0);
  const ValueId moved = axis == 0 ? slices : node.transpose(slices, perm, "slices");
  if (new_axis) return moved;
  Shape joined(shape.begin() + 1, shape.end());
  joined[static_cast<size_t>(axis)] = shape[0] * joined[static_cast<size_t>(axis)];
  return node.reshape(moved, joined, "joined");
}

std::optional<ValueId> split_to_slices(NodeImport& node) {
  const int64_t axis = normalize_axis(node.integer("axis", 0), node.rank(0), "axis");
  const Shape whole = node.shape(0);
  const auto at = static_cast<size_t>(axis);
  int64_t each = 1;
  if (node.has(1)) {
    const auto size = node.known_ints(1);
    if (!size || size->size() != 1 || node.rank(1) != 0) return std::nullopt;
    each = size->front();
  }
  const auto count = whole[at].is_constant() || each < 1 ? std::nullopt : whole[at].exact_div(each);
  if (!count) return std::nullopt;
  // (..., count * each, ...) to (..., count, each, ...), and that to (count, ..., each, ...).
  Shape parts = whole;
  parts[at] = *count;
  parts.insert(parts.begin() + axis + 1, each);
  Ints perm = {axis};
  for (int64_t d = 0; d < static_cast<int64_t>(parts.size()); ++d)
    if (d != axis) perm.push_back(d);
  const ValueId split = node.reshape(node.in(0), parts, "parts");
  const ValueId slices = axis == 0 ? split : node.transpose(split, perm, "slices");
  if (node.has(1) || node.integer("keepdims", 1) != 0) return slices;
  Shape without = whole;
  without.erase(without.begin() + axis);
  without.insert(without.begin(), *count);
  return node.reshape(slices, without, "slices");
}

}  // namespace lathe::onnx
