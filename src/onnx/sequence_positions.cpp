// SPDX-License-Identifier: Apache-2.0
#include "onnx/sequence_positions.h"

namespace lathe::onnx {

ValueId one_position(NodeImport& node, size_t input) {
  const Dim numbers = element_count(node.shape(input));
  if (numbers.is_constant() && numbers.value() != 1) node.fail("its position is not one number");
  return node.reshape(node.in(input), {}, "position");
}

ValueId read_position(NodeImport& node, size_t input, ValueId count) {
  const ValueId given = node.cast(one_position(node, input), DType::Int64);
  const ValueId from_end =
      node.pointwise(PointwiseCode::Less, {given, node.scalar(0, DType::Int64)}, "from_end");
  const ValueId counted = node.pointwise(PointwiseCode::Add, {given, count}, "counted");
  return node.pointwise(PointwiseCode::Where, {from_end, counted, given}, "place");
}

ValueId count_and(NodeImport& node, ValueId value, int64_t more) {
  const Dim count = node.shape_of(value)[0];
  if (!is_data_dependent({count})) return node.dim_scalar(count + more);
  const ValueId counted = dim_of(node, value, 0);
  return more == 0 ? counted
                   : node.pointwise(PointwiseCode::Add,
                                    {counted, node.scalar(static_cast<double>(more), DType::Int64)},
                                    "count_and_more");
}

ValueId integers_below(NodeImport& node, ValueId limit) {
  const ValueId zero = node.scalar(0, DType::Int64), one = node.scalar(1, DType::Int64);
  return node.add(Range{}, {zero, limit, one}, "places");
}

ValueId dim_of(NodeImport& node, ValueId value, size_t axis) {
  const auto start = static_cast<int64_t>(axis);
  const ValueId dim = node.add(ShapeOf{.start = start, .end = Ints{start + 1}}, {value}, "count");
  return node.reshape(dim, {}, "length");
}

// How far a Range goes that reads what a run finds, nothing bounds; the sum of as many ones is bounded.
ValueId integers(NodeImport& node, const Dim& count) {
  if (!is_data_dependent({count})) return integers_below(node, node.dim_scalar(count));
  const ValueId ones = node.expand(node.scalar(1, DType::Int64), {count}, "ones");
  return node.add(CumSum{.exclusive = true}, {ones, node.scalar(0, DType::Int64)}, "places");
}

// Reads a slice that is not there.
ValueId required(NodeImport& node, ValueId values, ValueId condition, std::string_view what) {
  const ValueId first = node.scalar(0, DType::Int64), none = node.scalar(1, DType::Int64);
  const ValueId place = node.pointwise(PointwiseCode::Where, {condition, first, none}, "place");
  return node.add(Gather{.axis = 0}, {values, place}, what);
}

}  // namespace lathe::onnx
