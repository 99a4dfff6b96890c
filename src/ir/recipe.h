// SPDX-License-Identifier: Apache-2.0
//
// How a constant follows from others. Passes fold, stack, cut, scale and convert the weights of a model; an
// engine file has the model's weights already, and stores the recipe of what was made of them in place of the
// bytes. ops/make_constants.h makes them again.
#pragma once

#include <vector>

#include "ir/op.h"
#include "ir/tensor.h"

namespace lathe {

// Longer chains are not kept: what they give is stored as it is.
inline constexpr int kMaxRecipeDepth = 32;

// One node on constants. Inputs that have a recipe have no bytes, so that nothing is kept alive that can be
// made again; the others are the model's weights, or small.
struct Recipe {
  Op op;
  PointwiseProgram epilogue;
  std::vector<Tensor> inputs;  // the node's; a default Tensor: absent
  size_t output = 0;           // which of its results
  int depth = 1;
};

// `result` with the recipe that made it; as it is where it is small (kKeptConstantBytes), where the chain of
// recipes would be too long, or where the operator's code or fields are not the file's to know (plugins,
// bodies).
Tensor made_by(Tensor result, Op op, std::vector<Tensor> inputs, PointwiseProgram epilogue = {},
               size_t output = 0);

}  // namespace lathe
