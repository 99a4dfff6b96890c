// SPDX-License-Identifier: Apache-2.0
#include "ir/recipe.h"

#include <algorithm>

namespace lathe {

Tensor made_by(Tensor result, Op op, std::vector<Tensor> inputs, PointwiseProgram epilogue, size_t output) {
  if (dtype_bytes(result.dtype(), result.size()) <= kKeptConstantBytes ||
      std::holds_alternative<Plugin>(op) || !bodies_of(op).empty())
    return result;
  int depth = 1;
  for (Tensor& input : inputs) {
    if (!input.recipe()) {
      if (input && input.size() > 0 && !input.has_bytes()) return result;  // its own chain was too long
      continue;
    }
    depth = std::max(depth, input.recipe()->depth + 1);
    input = input.forgotten();
  }
  if (depth > kMaxRecipeDepth) return result;
  auto recipe = std::make_shared<Recipe>(Recipe{.op = std::move(op),
                                                .epilogue = std::move(epilogue),
                                                .inputs = std::move(inputs),
                                                .output = output,
                                                .depth = depth});
  return result.with_recipe(std::move(recipe));
}

}  // namespace lathe
