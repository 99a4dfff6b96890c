// SPDX-License-Identifier: Apache-2.0
//
//   x * HardSigmoid[1/6, 1/2](x)                      ->  HardSwish(x)
//   x * clip(x + 3, 0, 6) / 6   (in any association)  ->  HardSwish(x)
//
// Must not fire when an intermediate result is read elsewhere.
#include <cmath>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool near(double a, double b) {
  return std::abs(a - b) < 1e-5;
}

// Divided by 6 or times 1/6: is the node that, on `value`?
bool is_sixth(const Graph& graph, NodeId node, ValueId value) {
  const auto operand = operand_with_scalar(graph, node);
  if (!operand || operand->value != value) return false;
  if (is_pointwise(graph, node, PointwiseCode::Mul)) return near(operand->scalar, 1.0 / 6);
  return is_pointwise(graph, node, PointwiseCode::Div) && !operand->scalar_first && operand->scalar == 6;
}

// From the gate on: the product with x and the division by 6 in either order.
bool match_tail(const Graph& graph, ValueId gate, ValueId x, bool needs_sixth, std::vector<NodeId>& nodes) {
  bool needs_x = true;
  while (needs_x || needs_sixth) {
    const auto next = sole_user(graph, gate);
    if (!next) return false;
    if (needs_sixth && is_sixth(graph, *next, gate)) {
      needs_sixth = false;
    } else if (needs_x && is_pointwise(graph, *next, PointwiseCode::Mul) &&
               other_operand(graph, *next, gate) == x) {
      needs_x = false;
    } else {
      return false;
    }
    nodes.push_back(*next);
    gate = result_of(graph, *next);
  }
  return graph.value(gate).shape == graph.value(x).shape && same_float_type(graph, {gate, x});
}

bool fuse_hard_swish_at(Graph& graph, PassContext& context, NodeId id) {
  const auto* op = plain_op<Pointwise>(graph, id);
  if (!op) return false;
  std::vector<NodeId> nodes;
  ValueId x = kNoValue;
  bool needs_sixth = false;
  if (op->code == PointwiseCode::HardSigmoid && near(op->alpha, 1.0 / 6) && near(op->beta, 0.5)) {
    x = graph.node(id).inputs[0];
  } else if (op->code == PointwiseCode::Clip && op->alpha == 0 && op->beta == 6) {
    const ValueId sum = graph.node(id).inputs[0];
    const NodeId add = pointwise_producer(graph, sum, PointwiseCode::Add);
    const auto operand = add == kNoNode ? std::nullopt : operand_with_scalar(graph, add);
    if (!operand || operand->scalar != 3 || !sole_user(graph, sum)) return false;
    x = operand->value;
    nodes.push_back(add);
    needs_sixth = true;
  } else {
    return false;
  }
  nodes.push_back(id);
  if (!match_tail(graph, result_of(graph, id), x, needs_sixth, nodes) || !context.may_change()) return false;
  replace_nodes(graph, context, nodes, Pointwise{PointwiseCode::HardSwish}, {x});
  return true;
}

}  // namespace

bool fuse_hard_swish(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!graph.node(id).removed) changed |= fuse_hard_swish_at(graph, context, id);
  }
  return changed;
}

}  // namespace lathe
