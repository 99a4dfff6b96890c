// SPDX-License-Identifier: Apache-2.0
//
// Products of matrices in double, and of integers in 64 bits, of any sizes (exact_product.cuh).
#pragma once

#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

// Of a MatMul, in its own type.
Tactic exact_product(const LayerQuery& query, std::string_view runner);
LayerSource generate_exact_product(const LayerQuery& query, const Tactic& tactic, const Device& device);

}  // namespace lathe::cuda
