// SPDX-License-Identifier: Apache-2.0
//
//   x * gate(Conv1x1(act(Conv1x1(mean of x over all positions))))  ->  SqueezeExcite(x)
//
// One layer instead of four, three of which are too small for more than one thread. Runs when activations are
// in the epilogues of their convolutions. Must not fire where the backend has no such layer; when mean,
// middle or gates are read by anything else; when weights are computed, a convolution looks beside its pixel,
// or an activation has operands; nor on types other than FP32, whose gates would be rounded in between.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool is_constant(const Graph& graph, ValueId value) {
  return value == kNoValue || graph.value(value).is_constant();
}

// The convolution behind `value` when it is a product over channels that only `user` reads, with constant
// weights.
NodeId product_over_channels(const Graph& graph, ValueId value, NodeId user) {
  const NodeId id = graph.value(value).producer;
  if (id == kNoNode || sole_user(graph, value) != user) return kNoNode;
  const Node& node = graph.node(id);
  const auto* conv = std::get_if<Conv>(&node.op);
  if (!conv || conv->groups != 1 || node.epilogue.input_count > 1) return kNoNode;
  const auto all = [](const Ints& v, int64_t x) {
    return std::all_of(v.begin(), v.end(), [x](int64_t i) { return i == x; });
  };
  const Shape& weights = graph.value(node.inputs[1]).shape;
  const bool pointwise =
      std::all_of(weights.begin() + 2, weights.end(), [](const Dim& d) { return d.is_constant(1); });
  if (!pointwise || !all(conv->pads_begin, 0) || !all(conv->pads_end, 0)) return kNoNode;
  const bool has_bias = node.op_input_count() > 2;
  return is_constant(graph, node.inputs[1]) && (!has_bias || is_constant(graph, node.inputs[2])) ? id
                                                                                                 : kNoNode;
}

// The mean over all spatial positions that only `user` reads.
NodeId spatial_mean(const Graph& graph, ValueId value, NodeId user) {
  const auto* mean = producer_op<Reduce>(graph, value);
  if (!mean || mean->kind != ReduceKind::Mean || !mean->keepdims || !mean->axes) return kNoNode;
  if (sole_user(graph, value) != user) return kNoNode;
  const auto rank = static_cast<int64_t>(graph.value(value).shape.size());
  std::vector<bool> reduced(static_cast<size_t>(rank), false);
  for (const int64_t axis : *mean->axes) reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  if (rank < 3 || reduced[0] || reduced[1]) return kNoNode;
  return std::all_of(reduced.begin() + 2, reduced.end(), [](bool r) { return r; })
             ? graph.value(value).producer
             : kNoNode;
}

ValueId bias_of(const Node& conv) {
  return conv.op_input_count() > 2 ? conv.inputs[2] : kNoValue;
}

bool fuse_squeeze_excite_at(Graph& graph, PassContext& context, NodeId mul, ValueId x, ValueId gate) {
  if (x == kNoValue || graph.value(x).dtype != DType::Float32) return false;
  if (graph.value(x).shape != graph.value(result_of(graph, mul)).shape) return false;
  const NodeId excite = product_over_channels(graph, gate, mul);
  if (excite == kNoNode) return false;
  const NodeId squeeze = product_over_channels(graph, graph.node(excite).inputs[0], excite);
  if (squeeze == kNoNode) return false;
  const NodeId mean = spatial_mean(graph, graph.node(squeeze).inputs[0], squeeze);
  if (mean == kNoNode || graph.node(mean).inputs[0] != x || !context.may_change()) return false;
  const Node &first = graph.node(squeeze), &second = graph.node(excite);
  const SqueezeExcite op{.squeeze = first.epilogue, .excite = second.epilogue};
  const std::vector<ValueId> inputs = {x, first.inputs[1], bias_of(first), second.inputs[1], bias_of(second)};
  replace_nodes(graph, context, {mean, squeeze, excite, mul}, op, inputs);
  return true;
}

}  // namespace

bool fuse_squeeze_excite(Graph& graph, PassContext& context) {
  if (!context.has_operator(SqueezeExcite::kName)) return false;
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed || !is_pointwise(graph, id, PointwiseCode::Mul)) continue;
    const ValueId a = graph.node(id).inputs[0], b = graph.node(id).inputs[1];
    changed |=
        fuse_squeeze_excite_at(graph, context, id, a, b) || fuse_squeeze_excite_at(graph, context, id, b, a);
  }
  return changed;
}

}  // namespace lathe
