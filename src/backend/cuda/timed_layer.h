// SPDX-License-Identifier: Apache-2.0
//
// Timing one layer with one tactic on the GPU, for the tuner.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cuda/kernel.h"

namespace lathe::cuda {

std::unique_ptr<TimedLayer> prepare_timed_layer(const LayerQuery& query, const Tactic& tactic,
                                                std::shared_ptr<const Device> device);

}  // namespace lathe::cuda
