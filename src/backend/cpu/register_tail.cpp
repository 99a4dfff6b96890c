// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/register_tail.h"

namespace lathe::cpu {
namespace {

bool set_activation(const PointwiseStep& step, RegisterTail& tail) {
  switch (step.code) {
    case PointwiseCode::Relu:
      tail.low = 0;
      return true;
    case PointwiseCode::Clip:
      tail.low = step.alpha;
      tail.high = step.beta;
      return true;
    case PointwiseCode::Silu:
      tail.activation = Activation::Silu;
      tail.alpha = step.alpha;
      return true;
    case PointwiseCode::GeluErf:
      tail.activation = Activation::GeluErf;
      return true;
    case PointwiseCode::GeluTanh:
      tail.activation = Activation::GeluTanh;
      return true;
    case PointwiseCode::HardSwish:
      tail.activation = Activation::HardSwish;
      return true;
    default:
      return false;
  }
}

// A constant with one value for each channel (or one for all), whatever dims of 1 surround it.
bool is_channel_constant(const Value& value, const Shape& result, size_t channel_axis) {
  if (!value.is_constant() || !is_float(value.dtype) || value.shape.size() > result.size()) return false;
  const size_t missing = result.size() - value.shape.size();
  for (size_t i = 0; i < value.shape.size(); ++i)
    if (!value.shape[i].is_constant(1) &&
        (i + missing != channel_axis || !(value.shape[i] == result[channel_axis])))
      return false;
  return true;
}

}  // namespace

std::optional<TailPlan> plan_register_tail(const LayerQuery& query, size_t channel_axis) {
  const Node& node = query.layer();
  const Shape& result = query.graph.value(node.outputs[0]).shape;
  TailPlan plan;
  bool activated = false;
  int current = 0;  // the number of the value so far
  for (size_t i = 0; i < node.epilogue.steps.size(); ++i) {
    const PointwiseStep& step = node.epilogue.steps[i];
    if (step.operands.size() == 1 && step.operands[0] == current) {
      // After an operand that came last there is no place for an activation.
      if (activated || plan.tail.operand_last || !set_activation(step, plan.tail)) return std::nullopt;
      activated = true;
    } else if (step.code == PointwiseCode::Add && step.operands.size() == 2) {
      const int other = step.operands[0] == current ? step.operands[1] : step.operands[0];
      const bool uses_current = step.operands[0] == current || step.operands[1] == current;
      if (!uses_current || other == current || other < 1 || other >= node.epilogue.input_count)
        return std::nullopt;
      const int input = static_cast<int>(node.op_input_count()) + other - 1;
      const Value& value = query.graph.value(node.inputs[static_cast<size_t>(input)]);
      if (is_channel_constant(value, result, channel_axis)) {
        if (activated) return std::nullopt;
        plan.added_to_bias.push_back(input);
      } else if (!value.is_constant() && value.shape == result && plan.operand < 0) {
        plan.operand = input;
        plan.tail.operand_last = activated;
      } else {
        return std::nullopt;
      }
    } else {
      return std::nullopt;
    }
    current = node.epilogue.input_count + static_cast<int>(i);
  }
  return plan;
}

std::vector<float> bias_of(const LayerQuery& query, const Tensor& bias, const TailPlan& plan,
                           int64_t channels, int64_t padded) {
  std::vector<double> sum(static_cast<size_t>(padded), 0.0);
  const auto add = [&](const Tensor& constant) {
    const std::vector<double> values = constant.to_doubles();
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c)
      sum[c] += values.size() == 1 ? values[0] : values[c];
  };
  if (bias) add(bias);
  for (const int input : plan.added_to_bias)
    add(query.graph.value(query.layer().inputs[static_cast<size_t>(input)]).constant);
  return {sum.begin(), sum.end()};
}

}  // namespace lathe::cpu
