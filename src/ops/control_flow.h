// SPDX-License-Identifier: Apache-2.0
//
// What If, Loop and Scan share with those who build and run them: which operand is which input of a body, and how many of each kind
// there are. Facts of the ONNX specification, https://onnx.ai/onnx/operators.
#pragma once

#include "ops/op_def.h"

namespace lathe {

// Operands of a Loop in front of the carried values, and inputs of its body in front of them.
inline constexpr size_t kLoopOwnInputs = 2;
// Whether the operator has bodies.
bool is_control_flow(const Op& op);
// The element of a condition or of a trip count. Throws Input when there are several, or none.
bool condition_of(const Tensor& condition);
int64_t trip_count_of(const Tensor& trip_count);
// The condition that a body gives is the one that it takes, or constant true: only the trip count ends such a loop.
bool body_always_continues(const Graph& body, bool starts_true);

}  // namespace lathe
