// SPDX-License-Identifier: Apache-2.0
//
// The reference evaluation of a layer with the types of any tactic in linear format.
#pragma once

#include "backend/cuda/kernel.h"

namespace lathe::cuda {

std::unique_ptr<LayerKernel> make_reference(const LayerQuery& query, const Tactic& tactic,
                                            const Device& device);

}  // namespace lathe::cuda
