// SPDX-License-Identifier: Apache-2.0
//
//   0.5 * x * (1 + erf(x / sqrt(2)))  ->  GeluErf(x)        (factors in any order, x * 0.7071 instead of the
//                                                           division)
//
// Must not fire when an intermediate result is read elsewhere.
#include <cmath>

#include "passes/gelu_tail.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// The x of x / sqrt(2), when `node` is that.
ValueId root_half_argument(const Graph& graph, NodeId node) {
  if (node == kNoNode) return kNoValue;
  const bool div = is_pointwise(graph, node, PointwiseCode::Div);
  if (!div && !is_pointwise(graph, node, PointwiseCode::Mul)) return kNoValue;
  const auto operand = operand_with_scalar(graph, node);
  if (!operand || (div && operand->scalar_first)) return kNoValue;
  const double expected = div ? std::sqrt(2.0) : std::sqrt(0.5);
  return std::abs(operand->scalar - expected) < 1e-4 ? operand->value : kNoValue;
}

}  // namespace

bool fuse_gelu_erf(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId erf : std::vector<NodeId>(graph.order())) {
    if (graph.node(erf).removed || !is_pointwise(graph, erf, PointwiseCode::Erf)) continue;
    const NodeId scale = graph.value(graph.node(erf).inputs[0]).producer;
    const ValueId x = root_half_argument(graph, scale);
    if (x == kNoValue || sole_user(graph, result_of(graph, scale)) != erf) continue;
    const auto tail = match_gelu_tail(graph, result_of(graph, erf), x);
    if (!tail || !context.may_change()) continue;
    std::vector<NodeId> nodes = {scale, erf};
    nodes.insert(nodes.end(), tail->begin(), tail->end());
    replace_nodes(graph, context, nodes, Pointwise{PointwiseCode::GeluErf}, {x});
    changed = true;
  }
  return changed;
}

}  // namespace lathe
