// SPDX-License-Identifier: Apache-2.0
//
// The small questions that patterns are made of. All of them look at one node or value; none changes
// anything.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace lathe {

// The one node that reads the value, when the value is no graph output. It may read it with several operands.
std::optional<NodeId> sole_user(const Graph& graph, ValueId value);

// The node's operator when it is a T without epilogue; else null.
template <class T>
const T* plain_op(const Graph& graph, NodeId node) {
  if (node == kNoNode || !graph.node(node).epilogue.empty()) return nullptr;
  return std::get_if<T>(&graph.node(node).op);
}
template <class T>
const T* producer_op(const Graph& graph, ValueId value) {
  return value == kNoValue ? nullptr : plain_op<T>(graph, graph.value(value).producer);
}

// Is the node this pointwise operation (without epilogue)?
bool is_pointwise(const Graph& graph, NodeId node, PointwiseCode code);
// The node that computes `value`, when it is this pointwise operation; else kNoNode.
NodeId pointwise_producer(const Graph& graph, ValueId value, PointwiseCode code);

// An axis of the value that may be counted from behind, counted from the front.
int64_t positive_axis(const Graph& graph, ValueId value, int64_t axis);

// A fill that swallows any score it is added to, so adding and replacing are the same.
constexpr double kOutOfReach = -1e30;

// The number in a constant of one element.
std::optional<double> scalar_constant(const Graph& graph, ValueId value);

// A binary node seen as (x, constant of one element), either way round.
struct WithScalar {
  ValueId value = kNoValue;
  double scalar = 0;
  bool scalar_first = false;
};
std::optional<WithScalar> operand_with_scalar(const Graph& graph, NodeId node);

// A binary node seen as (`value`, other), either way round; kNoValue when it does not read `value` or only
// that.
ValueId other_operand(const Graph& graph, NodeId node, ValueId value);

// Do all values have the same float type?
bool same_float_type(const Graph& graph, std::initializer_list<ValueId> values);

// A node with one output: that output.
ValueId result_of(const Graph& graph, NodeId node);

// Whether step `i` of the program, which it has, is this function of these operands.
bool is_step(const PointwiseProgram& program, size_t i, PointwiseCode code, const std::vector<int>& operands);

// Clip, RoundTo or RoundToE4M3 of the one operand, and nothing else: what QuantizeLinear and
// DequantizeLinear with one scale become.
bool only_rounds(const PointwiseProgram& program);

}  // namespace lathe
