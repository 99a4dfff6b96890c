// SPDX-License-Identifier: Apache-2.0
//
// A layer's epilogue as what a kernel can do in registers (vector/register_tail.h): per-channel constants
// that join the bias, at most one operand as large as the result, at most one activation. Anything else stays
// with the evaluator (pointwise_eval.h), which goes over a block of results in L1 or L2.
#pragma once

#include <optional>
#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/vector/register_tail.h"

namespace lathe::cpu {

struct TailPlan {
  RegisterTail tail;
  int operand = -1;                // the node's input that is added, or none
  std::vector<int> added_to_bias;  // the node's inputs: constants with one value, or one per channel
};

// nullopt: not such an epilogue. `channel_axis` is the axis of `result` along which a per-channel constant
// lies. `matrices`: the layer has a constant batch of right operands, and constants may have another row of
// channels for each (their dims but the last two).
std::optional<TailPlan> plan_register_tail(const LayerQuery& query, size_t channel_axis,
                                           bool matrices = false);

// A constant with one value for each channel (or one for all), whatever dims of 1 surround it. Small enough
// that a loaded engine still has its bytes: a plan must come out the same there.
bool is_channel_constant(const Value& value, const Shape& result, size_t channel_axis);

// The same of a program inside a layer, whose first operand is the node's input `operands`, for a value of
// shape `result`.
std::optional<TailPlan> plan_tail_of(const LayerQuery& query, const PointwiseProgram& program,
                                     size_t operands, const Shape& result, size_t channel_axis);

// Says that the result may take the operand's memory, where it has its type: for kernels that read each
// element of the operand right before they store the result's in its place, and nothing else there.
void write_over_operand(const std::optional<TailPlan>& plan, Tactic& tactic);

// A program between two parts of a layer: nothing or one activation. nullopt: anything else.
std::optional<RegisterTail> plan_activation(const PointwiseProgram& program);

// The form of the activation that is the machine's quickest.
void suit(RegisterTail& tail, const Machine& machine);

// For each of `matrices` the bias of `channels` values, padded with zeros: the constant `bias` (may be
// absent) plus the plan's.
std::vector<float> bias_of(const LayerQuery& query, const Tensor& bias, const TailPlan& plan,
                           int64_t channels, int64_t padded, int64_t matrices = 1);
// The same for a product's or convolution's own bias, its third operand.
std::vector<float> bias_of(const LayerQuery& query, const TailPlan& plan, int64_t channels, int64_t padded,
                           int64_t matrices = 1);

}  // namespace lathe::cpu
