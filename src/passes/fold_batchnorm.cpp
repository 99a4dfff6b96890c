// SPDX-License-Identifier: Apache-2.0
//
// BatchNorm behind a convolution goes into its weights and bias:
//   (w x + b - mean) * s / sqrt(var + eps) + t  =  (w k) x + (b - mean) k + t
// with k = s / sqrt(var + eps)
//
// Must not fire when the convolution's result is read by anybody else, or when weights or statistics are not
// constants.
#include "passes/channel_scale.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace lathe {

bool fold_batchnorm(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed) continue;
    const auto* norm = plain_op<BatchNorm>(graph, id);
    const NodeId conv = norm ? graph.value(graph.node(id).inputs[0]).producer : kNoNode;
    if (conv == kNoNode || !has_constant_weights(graph, conv)) continue;
    if (sole_user(graph, result_of(graph, conv)) != id) continue;
    const auto scale = batchnorm_scale(graph, id, output_channels(graph, conv));
    if (!scale || !context.may_change()) continue;
    context.report_fusion(graph, conv, id);
    scale_channels(graph, conv, *scale);
    GraphEditor editor(graph);
    editor.absorb(conv, id);
    editor.take_over_outputs(conv, id);
    changed = true;
  }
  return changed;
}

}  // namespace lathe
