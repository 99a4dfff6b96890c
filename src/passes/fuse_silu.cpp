// SPDX-License-Identifier: Apache-2.0
//
//   x * sigmoid(x)      ->  Silu[1](x)          x * sigmoid(a * x)  ->  Silu[a](x)
//
// Must not fire when the sigmoid is read elsewhere (it would be computed twice).
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool fuse_silu_at(Graph& graph, PassContext& context, NodeId sigmoid) {
  const ValueId gate = result_of(graph, sigmoid), argument = graph.node(sigmoid).inputs[0];
  const auto mul = sole_user(graph, gate);
  if (!mul || !is_pointwise(graph, *mul, PointwiseCode::Mul)) return false;
  const ValueId x = other_operand(graph, *mul, gate);
  if (x == kNoValue || !same_float_type(graph, {x, gate}) || graph.value(x).shape != graph.value(gate).shape)
    return false;
  std::vector<NodeId> nodes = {sigmoid, *mul};
  float alpha = 1;
  if (argument != x) {
    const NodeId scale = pointwise_producer(graph, argument, PointwiseCode::Mul);
    if (scale == kNoNode || !sole_user(graph, argument)) return false;
    const auto operand = operand_with_scalar(graph, scale);
    if (!operand || operand->value != x) return false;
    alpha = static_cast<float>(operand->scalar);
    nodes.insert(nodes.begin(), scale);
  }
  if (!context.may_change()) return false;
  replace_nodes(graph, context, nodes, Pointwise{.code = PointwiseCode::Silu, .alpha = alpha}, {x});
  return true;
}

}  // namespace

bool fuse_silu(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed || !is_pointwise(graph, id, PointwiseCode::Sigmoid)) continue;
    changed |= fuse_silu_at(graph, context, id);
  }
  return changed;
}

}  // namespace lathe
