// SPDX-License-Identifier: Apache-2.0
//
// Operators that carry a state from call to call: TensorScatter (caches of a fixed size),
// CausalConvWithState, LinearAttention.
#include <cmath>

#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// The rows of `update` replace those of the cache from write_indices[b] on: a scatter along the axis.
Values import_tensor_scatter(NodeImport& node) {
  const int64_t rank = node.rank(0), axis = normalize_axis(node.integer("axis", -2), rank, "axis");
  if (axis == 0) node.fail("axis is the batch dimension");
  if (node.rank(1) != rank) node.fail("cache and update must have the same number of dimensions");
  const std::string mode = node.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    node.fail("mode is '" + mode + "', expected linear or circular");
  const Shape update = node.shape(1);
  const auto at = static_cast<size_t>(axis);
  const ValueId zero = node.scalar(0, DType::Int64), one = node.scalar(1, DType::Int64);
  Shape along(update.size(), Dim(1)), batch(update.size(), Dim(1));
  along[at] = update[at];
  batch[0] = update[0];
  ValueId index = node.add(Range{}, {zero, node.dim_scalar(update[at]), one}, "rows");
  index = node.reshape(index, along, "rows_axis");
  if (node.has(2)) {
    const ValueId first = node.reshape(node.cast(node.in(2), DType::Int64), batch, "first");
    index = node.pointwise(C::Add, {first, index}, 0, 0, "places");
  }
  if (mode == "circular")
    index = node.pointwise(C::Mod, {index, node.dim_scalar(node.shape(0)[at])}, 0, 0, "wrapped");
  index = node.expand(index, update, "indices");
  return {node.add(ScatterElements{.axis = axis}, {node.in(0), index, node.in(1)})};
}

// A depthwise convolution over the past positions and the new ones; the last of both are the next state.
Values import_causal_conv(NodeImport& node) {
  if (node.rank(0) != 3 || node.rank(1) != 3 || !node.shape(1)[2].is_constant() ||
      !node.shape(1)[0].is_constant())
    node.fail("input and weight need three dimensions, the weight constant ones");
  const int64_t kernel = node.shape(1)[2].value(), past = kernel - 1;
  if (kernel < 1) node.fail("its kernel has no elements");
  const std::string activation = node.text("activation", "none");
  ValueId x = node.in(0);
  if (node.has(3)) {
    x = node.add(Concat{.axis = 2}, {node.in(3), x}, "with_past");
  } else if (past > 0) {
    x = node.add(Pad{.pads = Shape{0, 0, past, 0, 0, 0}}, {x}, "padded");
  }
  const Conv op{.kernel = {kernel},
                .strides = {1},
                .dilations = {1},
                .pads_begin = {0},
                .pads_end = {0},
                .groups = node.shape(1)[0].value()};
  ValueId y = node.add(op, {x, node.in(1), node.in_or_none(2)}, activation == "none" ? "" : "conv");
  if (activation == "silu" || activation == "swish") {
    y = node.pointwise(C::Silu, {y}, 1, 0, "activation");
  } else if (activation != "none") {
    node.fail("activation is '" + activation + "', expected none, silu or swish");
  }
  const Dim length = node.shape_of(x)[2];
  return {y, node.slice(x, 2, length - past, length, "present_state")};
}

LinearAttentionRule read_rule(const NodeImport& node) {
  const std::string rule = node.text("update_rule", "gated_delta");
  if (rule == "linear") return LinearAttentionRule::Linear;
  if (rule == "gated") return LinearAttentionRule::Gated;
  if (rule == "delta") return LinearAttentionRule::Delta;
  if (rule == "gated_delta") return LinearAttentionRule::GatedDelta;
  node.fail("update_rule is '" + rule + "', expected linear, gated, delta or gated_delta");
}

Values import_linear_attention(NodeImport& node) {
  LinearAttention op{.rule = read_rule(node),
                     .q_heads = node.required_integer("q_num_heads"),
                     .kv_heads = node.required_integer("kv_num_heads"),
                     .scale = node.real("scale", 0)};
  if (op.scale == 0) {
    const Shape q = node.shape(0);
    const auto width = q.empty() || op.q_heads < 1 ? std::nullopt : q.back().exact_div(op.q_heads);
    if (!width || !width->is_constant() || width->value() < 1)
      node.fail("the size of its heads is not a constant");
    op.scale = 1 / std::sqrt(static_cast<float>(width->value()));
  }
  return node.add_multi(
      op, {node.in(0), node.in(1), node.in(2), node.in_or_none(3), node.in_or_none(4), node.in_or_none(5)},
      2);
}

}  // namespace

std::vector<Importer> state_importers() {
  return {{"CausalConvWithState", 27, kLatestOpset, import_causal_conv},
          {"LinearAttention", 27, kLatestOpset, import_linear_attention},
          {"TensorScatter", 24, kLatestOpset, import_tensor_scatter}};
}

}  // namespace lathe::onnx
