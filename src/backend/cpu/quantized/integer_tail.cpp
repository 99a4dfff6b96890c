// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/quantized/integer_tail.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "backend/cpu/vector/tail_plan.h"
#include "base/error.h"
#include "ops/pointwise.h"

namespace lathe::cpu {
namespace {

// What a value goes through between two joins: a function, a clamp, a rounding.
struct Steps {
  Activation function = Activation::Clamp;
  float alpha = 1;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  float step = 0;
  bool has_factor = false;  // behind the function

  bool operator==(const Steps&) const = default;
  void clamp(float to_low, float to_high) {
    low = std::min(std::max(low, to_low), to_high);
    high = std::min(std::max(high, to_low), to_high);
  }
  bool set_function(Activation f, float a = 1) {
    if (!(*this == Steps{})) return false;
    function = f;
    alpha = a;
    return true;
  }
  bool is_function_alone() const { return *this == Steps{.function = function, .alpha = alpha}; }
  // False: not after what there is.
  bool add(const PointwiseStep& s) {
    switch (s.code) {
      case PointwiseCode::Relu:  // zero is on every grid: before the rounding or after it is the same
        clamp(0, std::numeric_limits<float>::infinity());
        return true;
      case PointwiseCode::Clip:
        clamp(s.alpha, s.beta);
        return step == 0 && s.alpha <= s.beta;
      case PointwiseCode::RoundTo:
        if (step != 0) return false;
        step = s.alpha;
        return true;
      case PointwiseCode::Silu:
        return set_function(Activation::Silu, s.alpha);
      case PointwiseCode::GeluErf:
        return set_function(Activation::GeluErf);
      case PointwiseCode::GeluTanh:
        return set_function(Activation::GeluTanh);
      case PointwiseCode::HardSwish:
        return set_function(Activation::HardSwish);
      default:
        return false;
    }
  }
};

// The number of the operand that an addition joins to the value `current`; 0: it is no such step.
int joined(const PointwiseStep& step, int current, int input_count) {
  if (step.code != PointwiseCode::Add || step.operands.size() != 2) return 0;
  const int other = step.operands[0] == current ? step.operands[1] : step.operands[0];
  const bool uses_current = step.operands[0] == current || step.operands[1] == current;
  return uses_current && other != current && other >= 1 && other < input_count ? other : 0;
}

// The number of the operand that the value `current` is multiplied by or divided by; 0: it is no such step.
int multiplied(const PointwiseStep& step, int current, int input_count) {
  const bool divides = step.code == PointwiseCode::Div;
  if ((step.code != PointwiseCode::Mul && !divides) || step.operands.size() != 2) return 0;
  const bool first = step.operands[0] == current;
  if (!first && (divides || step.operands[1] != current)) return 0;
  const int other = step.operands[first ? 1 : 0];
  return other != current && other >= 1 && other < input_count ? other : 0;
}

// Everything in steps of the result; before the operand in steps of the first rounding, where there is one.
void set_bytes(IntegerTailPlan& plan, double step) {
  const IntegerTail& tail = plan.tail;
  if (tail.function != Activation::Clamp || plan.factor >= 0) return;
  plan.unit = tail.first_step != 0 ? static_cast<double>(tail.first_step) : step;
  const auto in = [](float value, double unit) {
    return static_cast<float>(static_cast<double>(value) / unit);
  };
  ByteTail& bytes = plan.bytes.emplace();
  bytes.rounds_first = tail.first_step != 0;
  bytes.first_low = in(tail.first_low, plan.unit);
  bytes.first_high = in(tail.first_high, plan.unit);
  bytes.unit = static_cast<float>(plan.unit / step);
  // Within 32 bits, whatever the sum.
  constexpr float kMost = 1 << 20;
  bytes.low = std::max(-kMost, in(tail.low, step));
  bytes.high = std::min(kMost, in(tail.high, step));
  bytes.zero = static_cast<int32_t>(tail.zero);
  if (!tail.has_operand) return;
  bytes.operand = tail.operand_is_bytes ? ByteTail::Operand::Bytes : ByteTail::Operand::Floats;
  bytes.ratio = in(tail.operand_is_bytes ? tail.operand_scale : 1, step);
  if (tail.operand_is_bytes) bytes.offset = -in(tail.operand_scale * tail.operand_zero, step);
}

// The epilogue's steps from `first` on as a program of one input, the value `current`; nullopt where they
// read anything else.
std::optional<PointwiseProgram> function_of(const PointwiseProgram& epilogue, int current, size_t first) {
  const int shift = epilogue.input_count + static_cast<int>(first);  // the number of step `first`
  PointwiseProgram program{.input_count = 1};
  for (size_t i = first; i < epilogue.steps.size(); ++i) {
    PointwiseStep& step = program.steps.emplace_back(epilogue.steps[i]);
    for (int& operand : step.operands) {
      if (operand != current && operand < shift) return std::nullopt;
      operand = operand == current ? 0 : operand - shift + 1;
    }
  }
  return program;
}

// What follows a rounding to at most 256 numbers as a table of their bytes, whose grid is returned.
std::optional<ByteGrid> add_table(IntegerTailPlan& plan, const PointwiseProgram& function, const ByteGrid& to,
                                  const Machine& machine) {
  const IntegerTail& tail = plan.tail;
  const float low = std::nearbyint(tail.low / tail.step), high = std::nearbyint(tail.high / tail.step);
  if (tail.function != Activation::Clamp || !(std::abs(low) < 1 << 20) || !(high - low <= 255))
    return std::nullopt;
  const ByteGrid from{.scale = tail.step, .zero = -low};
  plan.table = tabulate(from, to, [&](const std::vector<double>& numbers) {
    const Tensor input =
        Tensor::from_doubles(DType::Float32, {static_cast<int64_t>(numbers.size())}, numbers);
    return evaluate_program(function, {&input, 1}, DType::Float32, {}).to_doubles();
  });
  plan.look_up = look_up_of(machine);
  return from;
}

}  // namespace

std::optional<IntegerTailPlan> plan_integer_tail(const LayerQuery& query, const Tactic& tactic,
                                                 size_t channel_axis, const Machine& machine) {
  const Node& node = query.layer();
  const Value& result = query.graph.value(node.outputs[0]);
  const auto result_grid = byte_grid(result, tactic.outputs[0]);
  IntegerTailPlan plan;
  Steps steps, first;
  std::optional<PointwiseProgram> function;
  const auto input_of = [&](int operand) -> const Value& {
    return query.graph.value(node.inputs[node.op_input_count() + static_cast<size_t>(operand) - 1]);
  };
  int current = 0;
  for (size_t i = 0; i < node.epilogue.steps.size() && !function; ++i) {
    const PointwiseStep& step = node.epilogue.steps[i];
    if (const int other = joined(step, current, node.epilogue.input_count)) {
      const int input = static_cast<int>(node.op_input_count()) + other - 1;
      const Value& value = input_of(other);
      if (plan.operand < 0 && steps == Steps{} && is_channel_constant(value, result.shape, channel_axis)) {
        plan.added_to_bias.push_back(input);
      } else if (plan.operand < 0 && !value.is_constant() && value.shape == result.shape &&
                 steps.function == Activation::Clamp && !steps.has_factor) {
        plan.operand = input;
        first = steps;
        steps = {};
      } else {
        return std::nullopt;
      }
    } else if (const int scaled = multiplied(step, current, node.epilogue.input_count);
               scaled != 0 && steps.is_function_alone() &&
               is_channel_constant(input_of(scaled), result.shape, channel_axis)) {
      plan.factor = static_cast<int>(node.op_input_count()) + scaled - 1;
      plan.divides = step.code == PointwiseCode::Div;
      steps.has_factor = true;
    } else if (Steps next = steps; step.operands == std::vector<int>{current} && next.add(step)) {
      steps = next;
    } else {
      if (steps.step != 0 && result_grid) function = function_of(node.epilogue, current, i);
      if (!function) return std::nullopt;
    }
    current = node.epilogue.input_count + static_cast<int>(i);
  }
  IntegerTail& tail = plan.tail;
  tail = {.first_low = first.low,
          .first_high = first.high,
          .first_step = first.step,
          .has_operand = plan.operand >= 0,
          .function = steps.function,
          .alpha = steps.alpha,
          .low = steps.low,
          .high = steps.high,
          .step = steps.step};
  if (tail.function == Activation::Silu && machine.divides_quickly)
    tail.function = Activation::SiluByDivision;
  if (plan.operand >= 0) {
    const auto at = static_cast<size_t>(plan.operand);
    if (const auto grid = byte_grid(query.graph.value(node.inputs[at]), tactic.inputs[at])) {
      tail.operand_is_bytes = true;
      tail.operand_scale = grid->scale;
      tail.operand_zero = grid->zero;
    } else if (tactic.inputs[at].dtype != DType::Float32) {
      return std::nullopt;
    }
  }
  if (!result_grid) return plan;
  tail.stores_bytes = true;
  const std::optional<ByteGrid> stored =
      function ? add_table(plan, *function, *result_grid, machine) : result_grid;
  if (!stored) return std::nullopt;
  tail.inverse = 1 / stored->scale;
  tail.zero = stored->zero;
  set_bytes(plan, static_cast<double>(stored->scale));
  return plan;
}

std::vector<float> factors_of(const IntegerTailPlan& plan, const LayerQuery& query, int64_t channels) {
  if (plan.factor < 0) return std::vector<float>(static_cast<size_t>(channels), 1.0f);
  TailPlan constant;
  constant.added_to_bias = {plan.factor};
  std::vector<float> factors = bias_of(query, {}, constant, channels, channels);
  if (plan.divides)
    for (float& factor : factors) factor = 1 / factor;
  return factors;
}

void finish_stored(const IntegerTailPlan& plan, void* bytes, int64_t count) {
  if (!plan.table) return;
  auto* const at = static_cast<uint8_t*>(bytes);
  plan.look_up(at, count, plan.table->data(), at);
}

void set_tail(const std::optional<IntegerTailPlan>& plan, IntegerOutput& output) {
  static const IntegerTail none;
  output.tail = plan ? &plan->tail : &none;
  output.bytes = plan && plan->bytes ? &*plan->bytes : nullptr;
  output.out_bytes = output.tail->stores_bytes ? 1 : 4;
  output.operand_bytes = output.tail->operand_is_bytes ? 1 : 4;
}

}  // namespace lathe::cpu
