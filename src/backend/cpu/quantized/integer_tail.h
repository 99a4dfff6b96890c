// SPDX-License-Identifier: Apache-2.0
//
// The epilogue of a layer of integers as steps that kernels do in registers. (backend/integer_operands.h:
// what is asked of its operands.)
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/tile/integer_table.h"
#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {

// An epilogue in registers: constants per channel that join the bias, at most one operand as large as the
// result. nullopt: the evaluator has to do it.
struct IntegerTailPlan {
  IntegerTail tail;
  std::optional<ByteTail> bytes;   // where it is enough; then
  double unit = 1;                 // scales and biases are divided by it
  int operand = -1;                // the node's input, or none
  std::vector<int> added_to_bias;  // the node's inputs
};
std::optional<IntegerTailPlan> plan_integer_tail(const LayerQuery& query, const Tactic& tactic,
                                                 size_t channel_axis, const Machine& machine);

// The plan's part of an output; of floats without one.
void set_tail(const std::optional<IntegerTailPlan>& plan, IntegerOutput& output);

}  // namespace lathe::cpu
