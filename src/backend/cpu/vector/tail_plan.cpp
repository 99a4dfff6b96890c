// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/vector/tail_plan.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {
namespace {

// A clamp behind what the tail has, which is a clamp too.
void clamp(RegisterTail& tail, float low, float high) {
  tail.low = std::min(std::max(tail.low, low), high);
  tail.high = std::min(std::max(tail.high, low), high);
}

bool set_activation(const PointwiseStep& step, RegisterTail& tail) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool clamps = tail.activation == Activation::Clamp, untouched = clamps && tail == RegisterTail{};
  switch (step.code) {
    case PointwiseCode::Relu:
      clamp(tail, 0, kInfinity);
      return clamps;
    case PointwiseCode::Clip:
      clamp(tail, step.alpha, step.beta);
      return clamps && step.alpha <= step.beta;
    case PointwiseCode::RoundTo:
      tail.activation = Activation::RoundTo;
      tail.alpha = step.alpha;
      return clamps;
    case PointwiseCode::Silu:
      tail.activation = Activation::Silu;
      tail.alpha = step.alpha;
      return untouched;
    case PointwiseCode::GeluErf:
      tail.activation = Activation::GeluErf;
      return untouched;
    case PointwiseCode::GeluTanh:
      tail.activation = Activation::GeluTanh;
      return untouched;
    case PointwiseCode::HardSwish:
      tail.activation = Activation::HardSwish;
      return untouched;
    default:
      return false;
  }
}

// A constant with one value for each channel (or one for all), whatever dims of 1 surround it; or one row of
// channels for each of `batch` matrices. Small enough that a loaded engine still has its bytes: the plan must
// come out the same there.
bool is_channel_constant(const Value& value, const Shape& result, size_t channel_axis, const Shape* batch) {
  if (!value.is_constant() || !is_float(value.dtype) || value.shape.size() > result.size()) return false;
  int64_t elements = 1;
  for (const Dim& dim : value.shape) elements *= dim.is_constant() ? dim.value() : 1;
  if (dtype_bytes(value.dtype, elements) > kKeptConstantBytes) return false;
  const size_t missing = result.size() - value.shape.size();
  if (batch && missing == 0 && value.shape.size() == batch->size() && batch->size() > 2 &&
      value.shape.back() == result.back() && value.shape[value.shape.size() - 2].is_constant(1))
    return std::equal(value.shape.begin(), value.shape.end() - 2, batch->begin());
  for (size_t i = 0; i < value.shape.size(); ++i)
    if (!value.shape[i].is_constant(1) &&
        (i + missing != channel_axis || !(value.shape[i] == result[channel_axis])))
      return false;
  return true;
}

// `batch`: the shape of a batch of right operands, or null.
std::optional<TailPlan> plan_program(const LayerQuery& query, const PointwiseProgram& program,
                                     size_t operands, const Shape& result, size_t channel_axis,
                                     const Shape* batch) {
  const Node& node = query.layer();
  TailPlan plan;
  bool activated = false;
  int current = 0;  // the number of the value so far
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const PointwiseStep& step = program.steps[i];
    if (step.operands.size() == 1 && step.operands[0] == current) {
      // After an operand that came last there is no place for an activation.
      if (plan.tail.operand_last || !set_activation(step, plan.tail)) return std::nullopt;
      activated = true;
    } else if (step.code == PointwiseCode::Add && step.operands.size() == 2) {
      const int other = step.operands[0] == current ? step.operands[1] : step.operands[0];
      const bool uses_current = step.operands[0] == current || step.operands[1] == current;
      if (!uses_current || other == current || other < 1 || other >= program.input_count) return std::nullopt;
      const int input = static_cast<int>(operands) + other - 1;
      const Value& value = query.graph.value(node.inputs[static_cast<size_t>(input)]);
      if (is_channel_constant(value, result, channel_axis, batch)) {
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
    current = program.input_count + static_cast<int>(i);
  }
  return plan;
}

}  // namespace

std::optional<TailPlan> plan_register_tail(const LayerQuery& query, size_t channel_axis, bool matrices) {
  const Node& node = query.layer();
  const Shape* batch = matrices ? &query.graph.value(node.inputs[1]).shape : nullptr;
  return plan_program(query, node.epilogue, node.op_input_count(), query.graph.value(node.outputs[0]).shape,
                      channel_axis, batch);
}

std::optional<TailPlan> plan_tail_of(const LayerQuery& query, const PointwiseProgram& program,
                                     size_t operands, const Shape& result, size_t channel_axis) {
  return plan_program(query, program, operands, result, channel_axis, nullptr);
}

bool is_channel_constant(const Value& value, const Shape& result, size_t channel_axis) {
  return is_channel_constant(value, result, channel_axis, nullptr);
}

void write_over_operand(const std::optional<TailPlan>& plan, Tactic& tactic) {
  if (!tactic.support.ok || !plan || plan->operand < 0) return;
  if (tactic.inputs[static_cast<size_t>(plan->operand)] == tactic.outputs[0])
    tactic.in_place_inputs = {plan->operand};
}

std::optional<RegisterTail> plan_activation(const PointwiseProgram& program) {
  RegisterTail tail;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const int current = i == 0 ? 0 : program.input_count + static_cast<int>(i) - 1;
    if (program.steps[i].operands != std::vector<int>{current} || !set_activation(program.steps[i], tail))
      return std::nullopt;
  }
  return tail;
}

void suit(RegisterTail& tail, const Machine& machine) {
  if (tail.activation == Activation::Silu && machine.divides_quickly)
    tail.activation = Activation::SiluByDivision;
}

std::vector<float> bias_of(const LayerQuery& query, const Tensor& bias, const TailPlan& plan,
                           int64_t channels, int64_t padded, int64_t matrices) {
  std::vector<double> sum(static_cast<size_t>(matrices * padded), 0.0);
  const auto add = [&](const Tensor& constant) {
    const std::vector<double> values = constant.to_doubles();
    for (int64_t i = 0; i < matrices; ++i)
      for (int64_t c = 0; c < channels; ++c)
        sum[static_cast<size_t>(i * padded + c)] +=
            values[static_cast<size_t>(i * channels + c) % values.size()];
  };
  if (bias) add(bias);
  for (const int input : plan.added_to_bias)
    add(query.graph.value(query.layer().inputs[static_cast<size_t>(input)]).constant);
  return {sum.begin(), sum.end()};
}
std::vector<float> bias_of(const LayerQuery& query, const TailPlan& plan, int64_t channels, int64_t padded,
                           int64_t matrices) {
  const Node& node = query.layer();
  const Tensor bias = node.has_op_input(2) ? query.graph.value(node.inputs[2]).constant : Tensor();
  return bias_of(query, bias, plan, channels, padded, matrices);
}

}  // namespace lathe::cpu
