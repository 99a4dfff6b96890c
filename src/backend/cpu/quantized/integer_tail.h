// SPDX-License-Identifier: Apache-2.0
//
// The epilogue of a layer of integers as steps that kernels do in registers. (backend/integer_operands.h:
// what is asked of its operands.)
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/quantized/byte_table.h"
#include "backend/cpu/tile/integer_table.h"
#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {

// An epilogue in registers: constants per channel that join the bias, at most one operand as large as the
// result. nullopt: the evaluator has to do it.
struct IntegerTailPlan {
  IntegerTail tail;
  std::optional<ByteTail> bytes;   // where it is enough; then
  double unit = 1;                 // scales and biases are divided by it
  std::optional<ByteTable> table;  // with `bytes`: what becomes of them when they are stored
  LookUp look_up = nullptr;
  int operand = -1;                // the node's input, or none
  std::vector<int> added_to_bias;  // the node's inputs
  // A constant per channel that the function's value is multiplied by, or divided.
  int factor = -1;  // the node's input, or none
  bool divides = false;
};
std::optional<IntegerTailPlan> plan_integer_tail(const LayerQuery& query, const Tactic& tactic,
                                                 size_t channel_axis, const Machine& machine);

// The end of it that no kernel does in registers: bytes that are stored become those of the table.
void finish_stored(const IntegerTailPlan& plan, void* bytes, int64_t count);

// For each of `channels`, what the function's value is multiplied by; 1 without such a constant.
std::vector<float> factors_of(const IntegerTailPlan& plan, const LayerQuery& query, int64_t channels);

// The plan's part of an output; of floats without one.
void set_tail(const std::optional<IntegerTailPlan>& plan, IntegerOutput& output);

}  // namespace lathe::cpu
