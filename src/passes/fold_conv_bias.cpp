// SPDX-License-Identifier: Apache-2.0
//
// x + b, x - b and x * s behind a convolution, with constants per channel, go into its bias and weights.
//
// Must not fire when the convolution's result is read by anybody else, nor for constants that vary over
// space.
#include "passes/channel_scale.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace lathe {
namespace {

// The pointwise node as a scale and shift of its operand `value`.
std::optional<ChannelScale> scale_of(const Graph& graph, NodeId id, ValueId value, int64_t channels) {
  const auto* op = plain_op<Pointwise>(graph, id);
  if (!op) return std::nullopt;
  const bool sub = op->code == PointwiseCode::Sub;
  if (!sub && op->code != PointwiseCode::Add && op->code != PointwiseCode::Mul) return std::nullopt;
  if (sub && graph.node(id).inputs[0] != value) return std::nullopt;
  const ValueId constant = other_operand(graph, id, value);
  const size_t rank = graph.value(value).shape.size();
  const auto numbers = per_channel(graph, constant, channels, rank);
  if (!numbers || graph.value(result_of(graph, id)).shape != graph.value(value).shape) return std::nullopt;
  const auto count = static_cast<size_t>(channels);
  ChannelScale scale{std::vector<double>(count, 1.0), std::vector<double>(count, 0.0)};
  for (size_t c = 0; c < count; ++c) {
    if (op->code == PointwiseCode::Mul) {
      scale.scale[c] = (*numbers)[c];
    } else {
      scale.shift[c] = sub ? -(*numbers)[c] : (*numbers)[c];
    }
  }
  return scale;
}

}  // namespace

bool fold_conv_bias(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId conv : std::vector<NodeId>(graph.order())) {
    while (!graph.node(conv).removed && has_constant_weights(graph, conv)) {
      const ValueId result = result_of(graph, conv);
      const auto user = sole_user(graph, result);
      if (!user) break;
      const auto scale = scale_of(graph, *user, result, output_channels(graph, conv));
      if (!scale || !context.may_change()) break;
      context.report_fusion(graph, conv, *user);
      scale_channels(graph, conv, *scale);
      GraphEditor editor(graph);
      editor.absorb(conv, *user);
      editor.take_over_outputs(conv, *user);
      changed = true;
    }
  }
  return changed;
}

}  // namespace lathe
