// SPDX-License-Identifier: Apache-2.0
//
//   d = x - mean(x); d / sqrt(mean(d^2) + epsilon)  ->  LayerNorm(x)        over all axes from one to the
//                                                                           last
//
// Scale and bias are joined by fuse_norm_scale. Must not fire when mean, d or variance are read by anything
// else, or when the two means run over different axes.
#include <algorithm>

#include "passes/match.h"
#include "passes/norm_parts.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool fuse_layer_norm_at(Graph& graph, PassContext& context, NodeId sub) {
  const ValueId d = result_of(graph, sub), x = graph.node(sub).inputs[0], mean = graph.node(sub).inputs[1];
  const NodeId mean_node = graph.value(mean).producer;
  const auto axis = mean_node == kNoNode ? std::nullopt : trailing_mean_axis(graph, mean_node);
  if (!axis || graph.node(mean_node).inputs[0] != x || sole_user(graph, mean) != sub) return false;
  const std::vector<NodeId> users = graph.is_output(d) ? std::vector<NodeId>() : graph.users(d);
  if (users.size() != 2 || !is_float(graph.value(x).dtype)) return false;
  for (size_t i = 0; i < 2; ++i) {
    const NodeId square = users[i], last = users[1 - i];
    if (!is_square_of(graph, square, d)) continue;
    const auto division = match_root_division(graph, last, d);
    if (!division) continue;
    const NodeId variance = graph.value(division->variance).producer;
    if (variance == kNoNode || trailing_mean_axis(graph, variance) != axis) continue;
    if (graph.node(variance).inputs[0] != result_of(graph, square) ||
        !sole_user(graph, result_of(graph, square)))
      continue;
    if (!context.may_change()) return false;
    std::vector<NodeId> nodes = {mean_node, sub, square, variance};
    nodes.insert(nodes.end(), division->nodes.begin(), division->nodes.end());
    replace_nodes(graph, context, nodes, LayerNorm{.axis = *axis, .epsilon = division->epsilon}, {x});
    return true;
  }
  return false;
}

}  // namespace

bool fuse_layer_norm(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed || !is_pointwise(graph, id, PointwiseCode::Sub)) continue;
    changed |= fuse_layer_norm_at(graph, context, id);
  }
  return changed;
}

}  // namespace lathe
