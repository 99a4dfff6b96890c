// SPDX-License-Identifier: Apache-2.0
//
//   [Conv 1x1 + activation], Conv with one filter per channel [+ activation], [Conv 1x1 + epilogue]
//     ->  DepthwiseBlock
// with at least one of the two pointwise neighbours. What is between the parts is several times wider than
// what goes in and comes out (six times in MobileNetV2), and one layer can keep it in the caches.
//
// An optional rewrite: the tuner times the block against its parts. Must not fire when a result between the
// parts is read by anything else or is an output, when an epilogue between them has operands, when a
// neighbour has strides, groups or pads, or when weights are not constant. A pointwise convolution between
// two depthwise ones goes to the first of them.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool all_are(const Ints& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [wanted](int64_t v) { return v == wanted; });
}

// A 2-D convolution of floats with constant weights and bias.
const Conv* constant_conv(const Graph& graph, NodeId id) {
  if (id == kNoNode) return nullptr;
  const Node& node = graph.node(id);
  const auto* conv = std::get_if<Conv>(&node.op);
  if (!conv || graph.value(node.inputs[0]).shape.size() != 4 || !is_float(graph.value(node.inputs[0]).dtype))
    return nullptr;
  for (size_t i = 1; i < node.op_input_count(); ++i)
    if (node.inputs[i] != kNoValue && !graph.value(node.inputs[i]).is_constant()) return nullptr;
  return conv;
}

bool is_depthwise(const Graph& graph, NodeId id) {
  const Conv* conv = constant_conv(graph, id);
  const Node& node = graph.node(id);
  return conv && conv->groups > 1 && conv->kernel.size() == 2 &&
         graph.value(node.inputs[0]).shape[1].is_constant(conv->groups) &&
         graph.value(node.inputs[1]).shape[0].is_constant(conv->groups);
}

bool is_pointwise_conv(const Graph& graph, NodeId id) {
  const Conv* conv = constant_conv(graph, id);
  if (!conv || conv->groups != 1 || !all_are(conv->strides, 1) || !all_are(conv->pads_begin, 0) ||
      !all_are(conv->pads_end, 0))
    return false;
  const Shape& weights = graph.value(graph.node(id).inputs[1]).shape;
  return weights[2].is_constant(1) && weights[3].is_constant(1);
}

bool has_no_operands(const Node& node) {
  return node.op_input_count() == node.inputs.size();
}

bool reads_once(const Node& node, ValueId value) {
  return std::count(node.inputs.begin(), node.inputs.end(), value) == 1;
}

// The pointwise convolution that alone gives the node's data.
NodeId expansion_of(const Graph& graph, NodeId depthwise) {
  const ValueId data = graph.node(depthwise).inputs[0];
  const NodeId id = graph.value(data).producer;
  const bool fits = is_pointwise_conv(graph, id) && reads_once(graph.node(depthwise), data) &&
                    sole_user(graph, data) == depthwise && has_no_operands(graph.node(id));
  return fits ? id : kNoNode;
}

// The pointwise convolution that alone reads the node's result.
NodeId projection_of(const Graph& graph, NodeId depthwise) {
  const ValueId result = result_of(graph, depthwise);
  const auto user = sole_user(graph, result);
  const bool fits = user && has_no_operands(graph.node(depthwise)) && is_pointwise_conv(graph, *user) &&
                    graph.node(*user).inputs[0] == result && reads_once(graph.node(*user), result);
  return fits ? *user : kNoNode;
}

void fuse_depthwise_block_at(Graph& graph, PassContext& context, const std::vector<NodeId>& parts,
                             NodeId expand, NodeId depthwise, NodeId project) {
  const Conv window = std::get<Conv>(graph.node(depthwise).op);
  DepthwiseBlock op{.kernel = window.kernel,
                    .strides = window.strides,
                    .dilations = window.dilations,
                    .pads_begin = window.pads_begin,
                    .pads_end = window.pads_end,
                    .auto_pad = window.auto_pad};
  std::vector<ValueId> inputs(DepthwiseBlock::kInputs, kNoValue);
  inputs[0] = graph.node(parts[0]).inputs[0];
  const auto take = [&](NodeId part, size_t weights) {
    if (part == kNoNode) return;
    const Node& node = graph.node(part);
    inputs[weights] = node.inputs[1];
    if (node.op_input_count() > 2) inputs[weights + 1] = node.inputs[2];
  };
  take(expand, DepthwiseBlock::kExpand);
  take(depthwise, DepthwiseBlock::kDepthwise);
  take(project, DepthwiseBlock::kProject);
  if (expand != kNoNode) op.expand_epilogue = graph.node(expand).epilogue;
  if (project != kNoNode) op.depthwise_epilogue = graph.node(depthwise).epilogue;
  const Node last = graph.node(parts.back());
  const std::vector<DType> types = common_types(graph, parts);
  const NodeId block = replace_nodes(graph, context, parts, op, std::move(inputs));
  GraphEditor editor(graph);
  editor.set_epilogue(
      block, last.epilogue,
      {last.inputs.begin() + static_cast<std::ptrdiff_t>(last.op_input_count()), last.inputs.end()});
  editor.set_allowed_types(block, types);
}

}  // namespace

bool fuse_depthwise_block(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed || !is_depthwise(graph, id)) continue;
    const NodeId expand = expansion_of(graph, id), project = projection_of(graph, id);
    std::vector<NodeId> parts;
    for (const NodeId part : {expand, id, project})
      if (part != kNoNode) parts.push_back(part);
    if (parts.size() < 2 || !context.may_change()) continue;
    fuse_depthwise_block_at(graph, context, parts, expand, id, project);
    changed = true;
  }
  return changed;
}

}  // namespace lathe
