// SPDX-License-Identifier: Apache-2.0
//
//   0.5 * x * (1 + tanh(0.7979 * (x + 0.044715 * x^3)))  ->  GeluTanh(x)
//
// x^3 is Pow(x, 3), x * x * x or Square(x) * x. Must not fire when an intermediate result is read elsewhere.
#include <cmath>

#include "passes/gelu_tail.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// The nodes that compute x^3 from x; empty when `value` is something else.
std::vector<NodeId> match_cube(const Graph& graph, ValueId value, ValueId x) {
  if (!sole_user(graph, value)) return {};
  if (const NodeId pow = pointwise_producer(graph, value, PointwiseCode::Pow); pow != kNoNode) {
    const auto& inputs = graph.node(pow).inputs;
    if (inputs[0] == x && scalar_constant(graph, inputs[1]) == 3.0) return {pow};
  }
  const NodeId mul = pointwise_producer(graph, value, PointwiseCode::Mul);
  if (mul == kNoNode) return {};
  const ValueId square = other_operand(graph, mul, x);
  if (square == kNoValue || !sole_user(graph, square)) return {};
  if (const NodeId node = pointwise_producer(graph, square, PointwiseCode::Square); node != kNoNode) {
    if (graph.node(node).inputs[0] == x) return {node, mul};
  }
  if (const NodeId node = pointwise_producer(graph, square, PointwiseCode::Mul); node != kNoNode) {
    if (graph.node(node).inputs == std::vector<ValueId>{x, x}) return {node, mul};
  }
  if (const NodeId node = pointwise_producer(graph, square, PointwiseCode::Pow); node != kNoNode) {
    const auto& inputs = graph.node(node).inputs;
    if (inputs[0] == x && scalar_constant(graph, inputs[1]) == 2.0) return {node, mul};
  }
  return {};
}

// A Mul with this scalar that only one node reads: the other operand.
ValueId scaled_by(const Graph& graph, ValueId value, double factor) {
  const NodeId mul = pointwise_producer(graph, value, PointwiseCode::Mul);
  if (mul == kNoNode || !sole_user(graph, value)) return kNoValue;
  const auto operand = operand_with_scalar(graph, mul);
  return operand && std::abs(operand->scalar - factor) < 1e-4 ? operand->value : kNoValue;
}

// The nodes up to tanh, and x.
bool match_head(const Graph& graph, NodeId tanh, std::vector<NodeId>& nodes, ValueId& x) {
  const ValueId argument = graph.node(tanh).inputs[0];
  const ValueId sum = scaled_by(graph, argument, std::sqrt(2 / M_PI));
  const NodeId add = pointwise_producer(graph, sum, PointwiseCode::Add);
  if (add == kNoNode || !sole_user(graph, sum)) return false;
  for (size_t i = 0; i < 2; ++i) {
    x = graph.node(add).inputs[i];
    const ValueId term = graph.node(add).inputs[1 - i];
    const ValueId cube = scaled_by(graph, term, 0.044715);
    if (cube == kNoValue) continue;
    nodes = match_cube(graph, cube, x);
    if (nodes.empty()) continue;
    for (NodeId node : {graph.value(term).producer, add, graph.value(argument).producer, tanh})
      nodes.push_back(node);
    return true;
  }
  return false;
}

}  // namespace

bool fuse_gelu_tanh(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId tanh : std::vector<NodeId>(graph.order())) {
    if (graph.node(tanh).removed || !is_pointwise(graph, tanh, PointwiseCode::Tanh)) continue;
    std::vector<NodeId> nodes;
    ValueId x = kNoValue;
    if (!match_head(graph, tanh, nodes, x)) continue;
    const auto tail = match_gelu_tail(graph, result_of(graph, tanh), x);
    if (!tail || !context.may_change()) continue;
    nodes.insert(nodes.end(), tail->begin(), tail->end());
    replace_nodes(graph, context, nodes, Pointwise{PointwiseCode::GeluTanh}, {x});
    changed = true;
  }
  return changed;
}

}  // namespace lathe
