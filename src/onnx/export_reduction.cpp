// SPDX-License-Identifier: Apache-2.0
//
// Pooling, normalization, reductions and recurrent layers.
#include "onnx/export_node.h"

#include <algorithm>

namespace lathe::onnx {

void NodeExport::operator()(const Pool& op) {
  Attributes attributes =
      window(op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, op.auto_pad);
  if (op.ceil_mode) attributes.emplace_back("ceil_mode", int64_t{1});
  switch (op.kind) {
    case PoolKind::Max:
      if (op.column_major) attributes.emplace_back("storage_order", int64_t{1});
      return result("MaxPool", {in(0)}, attributes);
    case PoolKind::Average:
      if (op.count_include_pad) attributes.emplace_back("count_include_pad", int64_t{1});
      return result("AveragePool", {in(0)}, attributes);
    case PoolKind::Lp:
      attributes.emplace_back("p", op.p);
      return result("LpPool", {in(0)}, attributes);
  }
}

void NodeExport::operator()(const Reduce& op) {
  const bool none = op.axes && op.axes->empty();
  const Attributes attributes = {{"keepdims", int64_t{op.keepdims}},
                                 {"noop_with_empty_axes", int64_t{none || op.noop_with_empty_axes}}};
  result("Reduce" + std::string(enum_name(op.kind)), {in(0), op.axes ? graph_.ints(*op.axes) : in(1)},
         attributes);
}

void NodeExport::operator()(const SqueezeExcite& op) {
  const std::string mean = step("GlobalAveragePool", {in(0)});
  const std::string squeezed = program_on(op.squeeze, step("Conv", {mean, in(1), in(2)}));
  result("Mul", {in(0), program_on(op.excite, step("Conv", {squeezed, in(3), in(4)}))});
}

void NodeExport::operator()(const ArgReduce& op) {
  result(op.max ? "ArgMax" : "ArgMin", {in(0)},
         {{"axis", op.axis},
          {"keepdims", int64_t{op.keepdims}},
          {"select_last_index", int64_t{op.select_last_index}}});
}

void NodeExport::operator()(const Softmax& op) {
  result(op.log ? "LogSoftmax" : "Softmax", {in(0)}, {{"axis", op.axis}});
}

// ONNX's scale is not optional, and the first result has no epilogue there: it is the fourth, too.
void NodeExport::operator()(const LayerNorm& op) {
  Names inputs = all_inputs();
  if (!has(1)) {
    const Shape& shape = value(0).shape;
    const auto axis = op.axis < 0 ? op.axis + rank() : op.axis;
    const Shape normalized(shape.begin() + axis, shape.end());
    inputs.resize(std::max<size_t>(inputs.size(), 2));
    inputs[1] = step("Expand", {graph_.scalar(1, dtype()), graph_.dims(normalized)});
  }
  const std::string plain = results_.size() > 3 ? results_[3] : "";
  results_.resize(std::min<size_t>(results_.size(), 3));
  result(op.rms ? "RMSNormalization" : "LayerNormalization", inputs,
         {{"axis", op.axis}, {"epsilon", op.epsilon}}, op.rms ? 23 : 17);
  if (!plain.empty()) node("Identity", {results_[0]}, {}, 1, plain);
}

void NodeExport::operator()(const BatchNorm& op) {
  result("BatchNormalization", all_inputs(), {{"epsilon", op.epsilon}});
}

void NodeExport::operator()(const GroupNorm& op) {
  if (op.groups == 0) return result("InstanceNormalization", all_inputs(), {{"epsilon", op.epsilon}});
  result("GroupNormalization", all_inputs(), {{"epsilon", op.epsilon}, {"num_groups", op.groups}});
}

void NodeExport::operator()(const Lrn& op) {
  result("LRN", {in(0)}, {{"size", op.size}, {"alpha", op.alpha}, {"beta", op.beta}, {"bias", op.bias}});
}

void NodeExport::operator()(const CumSum& op) {
  result("CumSum", all_inputs(), {{"exclusive", int64_t{op.exclusive}}, {"reverse", int64_t{op.reverse}}});
}

void NodeExport::operator()(const CumProd& op) {
  result("CumProd", all_inputs(), {{"exclusive", int64_t{op.exclusive}}, {"reverse", int64_t{op.reverse}}},
         26);
}

void NodeExport::operator()(const TopK& op) {
  result("TopK", all_inputs(),
         {{"axis", op.axis}, {"largest", int64_t{op.largest}}, {"sorted", int64_t{op.sorted}}});
}

// ONNX's layers have a dim of directions, which weights and states get and results lose here.
void NodeExport::recurrent(std::string_view op_type, Names activations, const std::vector<float>& alpha,
                           const std::vector<float>& beta, float clip, bool reverse, Attributes more) {
  Attributes attributes = std::move(more);
  attributes.emplace_back("hidden_size", value(2).shape.back().value());
  attributes.emplace_back("activations", std::move(activations));
  attributes.emplace_back("direction", reverse ? "reverse" : "forward");
  if (!alpha.empty()) attributes.emplace_back("activation_alpha", alpha);
  if (!beta.empty()) attributes.emplace_back("activation_beta", beta);
  if (clip > 0) attributes.emplace_back("clip", clip);
  const std::string first = graph_.ints({0});
  Names inputs = all_inputs();
  for (size_t i = 1; i < inputs.size(); ++i)
    if (!inputs[i].empty() && i != 4) inputs[i] = step("Unsqueeze", {inputs[i], first});
  const Names results = results_;
  for (std::string& name : results_)
    if (!name.empty()) name = graph_.model().unique(name + "_of_directions");
  result(op_type, inputs, attributes);
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].empty())
      node("Squeeze", {results_[i], i == 0 ? graph_.ints({1}) : first}, {}, 1, results[i]);
  results_ = results;
}

namespace {

std::string name_of(Activation activation) {
  return std::string(enum_name(activation));
}

}  // namespace

void NodeExport::operator()(const RNN& op) {
  recurrent("RNN", {name_of(op.f)}, op.alpha, op.beta, op.clip, op.reverse, {});
}

void NodeExport::operator()(const GRU& op) {
  recurrent("GRU", {name_of(op.f), name_of(op.g)}, op.alpha, op.beta, op.clip, op.reverse,
            {{"linear_before_reset", int64_t{op.linear_before_reset}}});
}

void NodeExport::operator()(const LSTM& op) {
  recurrent("LSTM", {name_of(op.f), name_of(op.g), name_of(op.h)}, op.alpha, op.beta, op.clip, op.reverse,
            {{"input_forget", int64_t{op.input_forget}}});
}

void NodeExport::operator()(const LinearAttention& op) {
  const char* rules[] = {"linear", "gated", "delta", "gated_delta"};
  result("LinearAttention", all_inputs(),
         {{"update_rule", rules[static_cast<size_t>(op.rule)]},
          {"q_num_heads", op.q_heads},
          {"kv_num_heads", op.kv_heads},
          {"scale", op.scale}},
         27);
}

}  // namespace lathe::onnx
