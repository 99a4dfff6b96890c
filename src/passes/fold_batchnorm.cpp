// SPDX-License-Identifier: Apache-2.0
//
// BatchNorm behind a convolution goes into its weights and bias:
//   (w x + b - mean) * s / sqrt(var + eps) + t  =  (w k) x + (b - mean) k + t
// with k = s / sqrt(var + eps)
//
// Must not fire when the convolution's result is read by anybody else, or when weights or statistics are not
// constants.
#include <cmath>

#include "passes/channel_scale.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace lathe {
namespace {

std::optional<ChannelScale> scale_of(const Graph& graph, const Node& node, float epsilon, int64_t channels) {
  std::vector<std::vector<double>> p;
  for (size_t i = 1; i < 5; ++i) {
    const Value& value = graph.value(node.inputs[i]);
    if (!value.is_constant() || !value.constant.has_bytes() || value.constant.size() != channels)
      return std::nullopt;
    p.push_back(value.constant.to_doubles());
  }
  ChannelScale scale;
  for (size_t c = 0; c < p[0].size(); ++c) {
    const double k = p[0][c] / std::sqrt(p[3][c] + static_cast<double>(epsilon));
    scale.scale.push_back(k);
    scale.shift.push_back(p[1][c] - p[2][c] * k);
  }
  return scale;
}

}  // namespace

bool fold_batchnorm(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed) continue;
    const auto* norm = plain_op<BatchNorm>(graph, id);
    const NodeId conv = norm ? graph.value(graph.node(id).inputs[0]).producer : kNoNode;
    if (conv == kNoNode || !has_constant_weights(graph, conv)) continue;
    if (sole_user(graph, result_of(graph, conv)) != id) continue;
    const auto scale = scale_of(graph, graph.node(id), norm->epsilon, output_channels(graph, conv));
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
