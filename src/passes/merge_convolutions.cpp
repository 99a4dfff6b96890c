// SPDX-License-Identifier: Apache-2.0
//
//   Conv(x, v) + Conv(x, w)  ->  Conv(x, v + w)
//   Conv(x, w) + BatchNorm(x)  ->  Conv(x, w + the BatchNorm's scales in the middle of each filter)
// anywhere in a sum of several terms. Networks trained with branches that add up (MobileOne, RepVGG, FastViT)
// are often exported with them. The smaller window may lie anywhere in the larger one: around it are zeros.
//
// Must not fire when anything else reads a branch, when strides, groups or dilations differ, when neither
// window holds the other, nor for weights on grids. A plain x stays what it is: 1 + w has fewer digits of w.
#include <algorithm>

#include "ops/make_constants.h"
#include "ops/window.h"
#include "passes/channel_scale.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// A sum is followed so far up and down: each convolution in it looks at the others.
constexpr size_t kMostSums = 32;

// A sum of two values of its own shape.
bool is_plain_sum(const Graph& graph, NodeId id) {
  if (!is_pointwise(graph, id, PointwiseCode::Add)) return false;
  const Node& node = graph.node(id);
  const Shape& shape = graph.value(result_of(graph, id)).shape;
  return node.inputs[0] != node.inputs[1] &&
         std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId input) { return graph.value(input).shape == shape; });
}

// The sum that alone reads the value.
NodeId sum_of(const Graph& graph, ValueId value) {
  const auto user = sole_user(graph, value);
  return user && is_plain_sum(graph, *user) ? *user : kNoNode;
}

// The nodes behind the terms of the sum that `term` is part of, but for `term` itself.
std::vector<NodeId> other_terms(const Graph& graph, NodeId term) {
  NodeId root = sum_of(graph, result_of(graph, term));
  if (root == kNoNode) return {};
  for (size_t i = 0; i < kMostSums; ++i) {
    const NodeId next = sum_of(graph, result_of(graph, root));
    if (next == kNoNode) break;
    root = next;
  }
  std::vector<NodeId> terms, sums = {root};
  for (size_t seen = 0; !sums.empty() && seen < 2 * kMostSums; ++seen) {
    const NodeId sum = sums.back();
    sums.pop_back();
    for (const ValueId input : graph.node(sum).inputs) {
      const NodeId producer = graph.value(input).producer;
      if (producer == kNoNode || producer == term || sole_user(graph, input) != sum) continue;
      (is_plain_sum(graph, producer) ? sums : terms).push_back(producer);
    }
  }
  return terms;
}

const Conv* mergeable(const Graph& graph, NodeId id) {
  const auto* conv = plain_op<Conv>(graph, id);
  if (!conv || conv->auto_pad != AutoPad::NotSet || !has_constant_weights(graph, id)) return nullptr;
  return graph.value(graph.node(id).inputs[1]).quantization ? nullptr : conv;
}

// Where the taps of `inner` lie among those of `outer`, along each axis.
std::optional<Ints> place_inside(const Conv& outer, const Conv& inner) {
  if (outer.groups != inner.groups || outer.kernel.size() != inner.kernel.size()) return std::nullopt;
  Ints place;
  for (size_t i = 0; i < outer.kernel.size(); ++i) {
    const int64_t dilation = entry_or(outer.dilations, i, 1);
    const int64_t offset = entry_or(outer.pads_begin, i, 0) - entry_or(inner.pads_begin, i, 0);
    if (entry_or(outer.strides, i, 1) != entry_or(inner.strides, i, 1) || offset < 0 ||
        offset % dilation != 0 || (inner.kernel[i] > 1 && entry_or(inner.dilations, i, 1) != dilation) ||
        offset / dilation + inner.kernel[i] > outer.kernel[i])
      return std::nullopt;
    place.push_back(offset / dilation);
  }
  return place;
}

// `small` with zeros around it, as large as weights of `extents`; its first tap lies at `place`.
Tensor padded_to(PassContext& context, const Tensor& small, const Extents& extents, const Ints& place) {
  if (small.extents() == extents) return small;
  Shape pads(2 * extents.size(), Dim(0));
  for (size_t i = 0; i < place.size(); ++i) {
    pads[2 + i] = Dim(place[i]);
    pads[extents.size() + 2 + i] = Dim(extents[2 + i] - small.extents()[2 + i] - place[i]);
  }
  return evaluate_constant(Pad{.pads = std::move(pads)}, {small}, small.dtype(), &context.pool);
}

// What is added to the weights and biases of a convolution.
struct Addend {
  Tensor weights;
  std::vector<double> bias;
};

std::optional<Addend> addend_of_conv(const Graph& graph, PassContext& context, NodeId conv, NodeId other) {
  const Node& node = graph.node(other);
  const Value &own = graph.value(graph.node(conv).inputs[1]), &weights = graph.value(node.inputs[1]);
  const auto place = place_inside(std::get<Conv>(graph.node(conv).op), std::get<Conv>(node.op));
  if (!place || weights.dtype != own.dtype) return std::nullopt;
  Addend addend{.weights = padded_to(context, weights.constant, own.constant.extents(), *place)};
  if (node.has_op_input(2)) addend.bias = graph.value(node.inputs[2]).constant.to_doubles();
  return addend;
}

// A BatchNorm of the image that `conv` reads as one tap of each filter: that of its own channel, which lies
// on the pixel itself.
std::optional<Addend> addend_of_norm(const Graph& graph, NodeId conv, NodeId norm) {
  const Node& node = graph.node(conv);
  const Conv& op = std::get<Conv>(node.op);
  const Tensor& weights = graph.value(node.inputs[1]).constant;
  const Extents& extents = weights.extents();
  const int64_t channels = extents[0];
  if (weights.dtype() != DType::Float32 || extents[1] * op.groups != channels) return std::nullopt;
  int64_t tap = 0, taps = 1;
  for (size_t i = 0; i < op.kernel.size(); ++i) {
    const int64_t pad = entry_or(op.pads_begin, i, 0), dilation = entry_or(op.dilations, i, 1);
    if (entry_or(op.strides, i, 1) != 1 || pad < 0 || pad % dilation != 0 || pad / dilation >= op.kernel[i])
      return std::nullopt;
    tap = tap * op.kernel[i] + pad / dilation;
    taps *= op.kernel[i];
  }
  const auto scale = batchnorm_scale(graph, norm, channels);
  if (!scale) return std::nullopt;
  Addend addend{.weights = Tensor::allocate(DType::Float32, extents), .bias = scale->shift};
  const auto values = addend.weights.mutable_data<float>();
  std::fill(values.begin(), values.end(), 0.0f);
  for (int64_t c = 0; c < channels; ++c)
    values[static_cast<size_t>((c * extents[1] + c % extents[1]) * taps + tap)] =
        static_cast<float>(scale->scale[static_cast<size_t>(c)]);
  return addend;
}

// The convolution reads one more branch of its sum.
void add_to(Graph& graph, PassContext& context, NodeId conv, const Addend& addend) {
  GraphEditor editor(graph);
  const Node& node = graph.node(conv);
  const std::vector<ValueId> given = node.inputs;
  const Value& weights = graph.value(given[1]);
  std::vector<double> bias = addend.bias;
  if (node.has_op_input(2)) {
    const std::vector<double> own = graph.value(given[2]).constant.to_doubles();
    bias.resize(own.size(), 0.0);
    for (size_t i = 0; i < own.size(); ++i) bias[i] += own[i];
  }
  const DType type = weights.dtype;
  const ValueId sum = editor.add_constant(
      weights.name + "_sum", evaluate_constant(Pointwise{.code = PointwiseCode::Add},
                                               {weights.constant, addend.weights}, type, &context.pool));
  std::vector<ValueId> inputs = {given[0], sum};
  if (!bias.empty())
    inputs.push_back(editor.add_constant(
        node.name + "_bias", Tensor::from_doubles(type, {static_cast<int64_t>(bias.size())}, bias)));
  editor.set_inputs(conv, std::move(inputs));
}

// The sum that reads `term` is gone: it was of `term` and of `other`.
void leave_sum(Graph& graph, NodeId conv, NodeId sum, ValueId other) {
  GraphEditor editor(graph);
  editor.absorb(conv, sum);
  if (other == result_of(graph, conv)) return editor.take_over_outputs(conv, sum);
  editor.replace_uses(result_of(graph, sum), other);
  remove_if_unread(graph, sum);
}

std::optional<Addend> addend_of(const Graph& graph, PassContext& context, NodeId conv, NodeId term) {
  if (mergeable(graph, term)) return addend_of_conv(graph, context, conv, term);
  return addend_of_norm(graph, conv, term);
}

bool merge_into(Graph& graph, PassContext& context, NodeId id) {
  if (!mergeable(graph, id)) return false;
  const ValueId image = graph.node(id).inputs[0];
  for (const NodeId term : other_terms(graph, id)) {
    if (graph.node(term).inputs.empty() || graph.node(term).inputs[0] != image) continue;
    const NodeId sum = sum_of(graph, result_of(graph, term));
    const ValueId other = other_operand(graph, sum, result_of(graph, term));
    if (other != result_of(graph, id) && !GraphEditor(graph).can_replace_uses(result_of(graph, sum), other))
      continue;
    const std::optional<Addend> addend = addend_of(graph, context, id, term);
    if (!addend || !context.may_change()) continue;
    context.report_fusion(graph, id, term);
    add_to(graph, context, id, *addend);
    GraphEditor(graph).absorb(id, term);
    leave_sum(graph, id, sum, other);
    remove_if_unread(graph, term);
    return true;
  }
  return false;
}

}  // namespace

bool merge_convolutions(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order()))
    while (!graph.node(id).removed && merge_into(graph, context, id)) changed = true;
  return changed;
}

}  // namespace lathe
