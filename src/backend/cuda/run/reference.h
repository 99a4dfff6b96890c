// SPDX-License-Identifier: Apache-2.0
//
// The reference evaluation of a layer with the types and formats of any tactic.
#pragma once

#include "backend/cuda/kernel.h"

namespace lathe::cuda {

std::unique_ptr<LayerKernel> make_reference(const LayerQuery& query, const Tactic& tactic,
                                            const Device& device);

// The same of an operator with bodies, whose nodes run on kernels where they have one (control_flow.cpp).
std::unique_ptr<LayerKernel> make_control_flow(const LayerQuery& query, const Tactic& tactic,
                                               const Device& device, const PackContext& pack);

}  // namespace lathe::cuda
