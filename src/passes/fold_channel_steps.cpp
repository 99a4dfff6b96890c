// SPDX-License-Identifier: Apache-2.0
//
//   depthwise Conv(s Clip[low, high](Round(x / s)), w)
//     ->  depthwise Conv(RoundTo[1](Clip[low, high](x / s)), s w)
//
// with a scale s for each channel, where all that read the rounded value are depthwise convolutions. NNCF
// quantises in front of those so: with a scale for the tensor, channels of small numbers would keep few of
// their bits. A kernel stores bytes of one scale; here it is 1 for all channels, and each channel of the
// weights takes its own. Weights on a grid with a scale for each channel stay on one.
//
// Must not fire where anything else reads the rounded value (its elements would need their scales), for other
// groups than one for each channel, whose weights would need a scale for each input, when the scales are not
// those of axis 1, when weights are computed, or in 16 bits, which have no room for the products of two
// scales.
#include <algorithm>

#include "ir/edit.h"
#include "passes/channel_scale.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace lathe {
namespace {

// The chain of fuse_quantize_dequantize for one range of integers and a scale for each channel.
bool rounds_channels(const PointwiseProgram& program) {
  return program.input_count == 2 && program.steps.size() == 4 &&
         is_step(program, 0, PointwiseCode::Div, {0, 1}) && is_step(program, 1, PointwiseCode::Round, {2}) &&
         is_step(program, 2, PointwiseCode::Clip, {3}) && is_step(program, 3, PointwiseCode::Mul, {4, 1});
}

bool is_depthwise_reader(const Graph& graph, NodeId id, ValueId x, int64_t channels) {
  const auto* conv = plain_op<Conv>(graph, id);
  if (!conv || conv->groups != channels || !has_constant_weights(graph, id)) return false;
  const std::vector<ValueId>& inputs = graph.node(id).inputs;
  return inputs[0] == x && std::count(inputs.begin(), inputs.end(), x) == 1 &&
         output_channels(graph, id) % channels == 0;
}

bool fold_channel_steps_at(Graph& graph, PassContext& context, NodeId id) {
  const auto* chain = plain_op<PointwiseChain>(graph, id);
  if (!chain || !rounds_channels(chain->program)) return false;
  const ValueId y = result_of(graph, id);
  const Shape& shape = graph.value(y).shape;
  const std::vector<NodeId> readers = graph.users(y);
  if (graph.value(y).dtype != DType::Float32 || shape.size() < 3 || !shape[1].is_constant() ||
      readers.empty() || graph.is_output(y))
    return false;
  const int64_t channels = shape[1].value();
  const auto scales = positive_per_channel(graph, graph.node(id).inputs[1], channels, shape.size());
  if (!scales) return false;
  const auto reads = [&](NodeId reader) { return is_depthwise_reader(graph, reader, y, channels); };
  if (!std::all_of(readers.begin(), readers.end(), reads) || !context.may_change()) return false;

  GraphEditor editor(graph);
  PointwiseProgram program = PointwiseProgram::parse("Div(0,1)", 2);
  const PointwiseStep& clip = chain->program.steps[2];
  program.steps.push_back({PointwiseCode::Clip, clip.alpha, clip.beta, {2}});
  program.steps.push_back({PointwiseCode::RoundTo, 1, 0, {3}});
  for (const NodeId reader : readers) {
    const int64_t per_group = output_channels(graph, reader) / channels;
    std::vector<double> factors;
    for (const double s : *scales) factors.insert(factors.end(), static_cast<size_t>(per_group), s);
    context.report_fusion(graph, id, reader);
    scale_weights(graph, reader, factors);
  }
  editor.set_op(id, PointwiseChain{std::move(program)});
  return true;
}

}  // namespace

bool fold_channel_steps(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= fold_channel_steps_at(graph, context, id);
  return changed;
}

}  // namespace lathe
