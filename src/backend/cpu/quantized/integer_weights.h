// SPDX-License-Identifier: Apache-2.0
//
// What integer kernels ask of a layer of the graph: whether its operands lie on grids that they can multiply,
// the integers of its constant weights, and its epilogue as steps that they do in registers.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/tile/integer_table.h"
#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {

// Whether the layer multiplies bytes of a grid by constant weights of a grid, its scales along `weight_axis`
// at most, with sums of `depth` products that fit 32 bits. No says what is in the way.
Support multiplies_integers(const LayerQuery& query, size_t weight_axis, int64_t depth);

// The weights less their zero points fit signed bytes, which quads and tiles multiply.
bool has_byte_weights(const LayerQuery& query);

// Whole numbers in the order of the constant, less the zero point of their channel (their index along
// `weight_axis`). Reads the constant's bytes.
std::vector<int16_t> integer_weights(const LayerQuery& query, size_t weight_axis);

// Scale of x times scale of the weights, for each of `channels`.
std::vector<float> product_scales(const LayerQuery& query, int64_t channels);

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
