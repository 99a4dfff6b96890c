// SPDX-License-Identifier: Apache-2.0
//
// Makes constants that are known by their recipes (ir/recipe.h) alone.
#pragma once

#include <functional>
#include <map>

#include "base/thread_pool.h"
#include "ir/graph.h"
#include "ir/recipe.h"

namespace lathe {

// The result of one node on constants, with its recipe.
Tensor evaluate_constant(Op op, const std::vector<Tensor>& inputs, DType dtype, ThreadPool* pool);
// Whether a constant of the graph has a recipe in place of bytes.
bool has_unmade_constants(const Graph& graph);
// Gives all constants of the graph their bytes.
void make_constants(Graph& graph, ThreadPool* pool);
// Takes the bytes of constants that can be made again from all but those for which `keeps` answers yes.
void forget_made_constants(Graph& graph, const std::function<bool(ValueId)>& keeps);

}  // namespace lathe
