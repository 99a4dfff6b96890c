// SPDX-License-Identifier: Apache-2.0
//
//   x / sqrt(mean(x^2) + epsilon)  ->  LayerNorm{rms}(x)        over all axes from one to the last
//
// The scale is joined by fuse_norm_scale. Must not fire when the mean or the square is read elsewhere.
#include "passes/match.h"
#include "passes/norm_parts.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool fuse_rms_norm_at(Graph& graph, PassContext& context, NodeId mean) {
  const auto axis = trailing_mean_axis(graph, mean);
  if (!axis) return false;
  const ValueId squared = graph.node(mean).inputs[0];
  const NodeId square = graph.value(squared).producer;
  if (square == kNoNode || sole_user(graph, squared) != mean || graph.node(square).inputs.empty())
    return false;
  const ValueId x = graph.node(square).inputs[0];
  if (!is_square_of(graph, square, x) || !is_float(graph.value(x).dtype)) return false;
  for (NodeId last : graph.users(x)) {
    const auto division = match_root_division(graph, last, x);
    if (!division || division->variance != result_of(graph, mean)) continue;
    if (!context.may_change()) return false;
    std::vector<NodeId> nodes = {square, mean};
    nodes.insert(nodes.end(), division->nodes.begin(), division->nodes.end());
    replace_nodes(graph, context, nodes, LayerNorm{.axis = *axis, .epsilon = division->epsilon, .rms = true},
                  {x});
    return true;
  }
  return false;
}

}  // namespace

bool fuse_rms_norm(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!graph.node(id).removed && plain_op<Reduce>(graph, id))
      changed |= fuse_rms_norm_at(graph, context, id);
  }
  return changed;
}

}  // namespace lathe
