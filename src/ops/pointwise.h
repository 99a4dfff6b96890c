// SPDX-License-Identifier: Apache-2.0
//
// Programs of pointwise operations: their types and their evaluation. Used by the Pointwise and
// PointwiseChain operators and by the epilogues of all others.
#pragma once

#include <span>

#include "ops/op_def.h"

namespace lathe {

// The type that `code` gives for operands of these types. Throws Input when the operation does not take them.
DType pointwise_dtype(PointwiseCode code, std::span<const DType> operands);
// The type of the last step (of input 0 when the program is empty).
DType program_dtype(const PointwiseProgram& program, std::span<const DType> inputs);
// The inputs broadcast against each other; the result is converted to `output_dtype`. An empty program
// converts input 0.
Tensor evaluate_program(const PointwiseProgram& program, std::span<const Tensor> inputs, DType output_dtype,
                        const EvaluateContext& context);

}  // namespace lathe
