// SPDX-License-Identifier: Apache-2.0
#include "passes/norm_parts.h"

#include <algorithm>

#include "passes/match.h"

namespace lathe {

std::optional<int64_t> trailing_mean_axis(const Graph& graph, NodeId id) {
  const auto* op = plain_op<Reduce>(graph, id);
  if (!op || op->kind != ReduceKind::Mean || !op->keepdims || !op->axes || op->axes->empty())
    return std::nullopt;
  const auto rank = static_cast<int64_t>(graph.value(graph.node(id).inputs[0]).shape.size());
  Ints axes;
  for (int64_t axis : *op->axes) axes.push_back(axis < 0 ? axis + rank : axis);
  std::sort(axes.begin(), axes.end());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<int64_t>(axes.size() - i)) return std::nullopt;
  }
  return axes[0];
}

bool is_square_of(const Graph& graph, NodeId id, ValueId value) {
  const auto* op = plain_op<Pointwise>(graph, id);
  if (!op) return false;
  const auto& inputs = graph.node(id).inputs;
  if (op->code == PointwiseCode::Square) return inputs[0] == value;
  if (op->code == PointwiseCode::Mul) return inputs[0] == value && inputs[1] == value;
  return op->code == PointwiseCode::Pow && inputs[0] == value && scalar_constant(graph, inputs[1]) == 2.0;
}

namespace {

// The node behind `value` when it is this operation and nobody else reads it.
NodeId private_producer(const Graph& graph, ValueId value, PointwiseCode code) {
  return sole_user(graph, value) ? pointwise_producer(graph, value, code) : kNoNode;
}

// 1 / root written as Reciprocal(Sqrt(v)), Rsqrt(v) or 1 / Sqrt(v); fills nodes and gives v.
ValueId match_inverse_root(const Graph& graph, ValueId inverse, std::vector<NodeId>& nodes) {
  if (const NodeId rsqrt = private_producer(graph, inverse, PointwiseCode::Rsqrt); rsqrt != kNoNode) {
    nodes = {rsqrt};
    return graph.node(rsqrt).inputs[0];
  }
  NodeId reciprocal = private_producer(graph, inverse, PointwiseCode::Reciprocal);
  ValueId root = reciprocal == kNoNode ? kNoValue : graph.node(reciprocal).inputs[0];
  if (reciprocal == kNoNode) {
    reciprocal = private_producer(graph, inverse, PointwiseCode::Div);
    if (reciprocal == kNoNode || scalar_constant(graph, graph.node(reciprocal).inputs[0]) != 1.0)
      return kNoValue;
    root = graph.node(reciprocal).inputs[1];
  }
  const NodeId sqrt = private_producer(graph, root, PointwiseCode::Sqrt);
  if (sqrt == kNoNode) return kNoValue;
  nodes = {sqrt, reciprocal};
  return graph.node(sqrt).inputs[0];
}

}  // namespace

std::optional<RootDivision> match_root_division(const Graph& graph, NodeId last, ValueId numerator) {
  RootDivision result;
  ValueId sum = kNoValue;
  if (is_pointwise(graph, last, PointwiseCode::Div)) {
    const auto& inputs = graph.node(last).inputs;
    const NodeId sqrt = private_producer(graph, inputs[1], PointwiseCode::Sqrt);
    if (inputs[0] != numerator || sqrt == kNoNode) return std::nullopt;
    result.nodes = {sqrt};
    sum = graph.node(sqrt).inputs[0];
  } else if (is_pointwise(graph, last, PointwiseCode::Mul)) {
    const ValueId inverse = other_operand(graph, last, numerator);
    if (inverse == kNoValue) return std::nullopt;
    sum = match_inverse_root(graph, inverse, result.nodes);
  }
  const NodeId add = sum == kNoValue ? kNoNode : private_producer(graph, sum, PointwiseCode::Add);
  const auto epsilon = add == kNoNode ? std::nullopt : operand_with_scalar(graph, add);
  if (!epsilon || !sole_user(graph, epsilon->value)) return std::nullopt;
  result.epsilon = static_cast<float>(epsilon->scalar);
  result.variance = epsilon->value;
  result.nodes.insert(result.nodes.begin(), add);
  result.nodes.push_back(last);
  return result;
}

}  // namespace lathe
