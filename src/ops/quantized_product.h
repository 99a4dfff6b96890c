// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and products of values that are stored as integers: the sum of products is exact, the scales
// come afterwards.
#pragma once

#include <vector>

#include "ops/op_def.h"

namespace lathe {

// The node's result with its epilogue as numbers, when it is a Conv or MatMul whose first operand is stored
// quantised and whose second one lies on a grid, too; empty for every other node. The context holds numbers.
std::vector<Tensor> evaluate_quantized_product(const Graph& graph, const Node& node,
                                               const EvaluateContext& context);

}  // namespace lathe
