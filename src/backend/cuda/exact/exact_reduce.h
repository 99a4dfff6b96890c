// SPDX-License-Identifier: Apache-2.0
//
// Reductions in double, and in integers of 64 bits: over any dims, over none, and over no elements
// (exact_reduce.cuh).
#pragma once

#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

// Of a Reduce, in each type that it may have.
std::vector<Tactic> exact_reductions(const LayerQuery& query, std::string_view runner);
LayerSource generate_exact_reduction(const LayerQuery& query, const Tactic& tactic, const Device& device);

}  // namespace lathe::cuda
