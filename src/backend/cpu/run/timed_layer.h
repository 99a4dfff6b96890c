// SPDX-License-Identifier: Apache-2.0
//
// One layer with one tactic, prepared for timing at the tuning shapes.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/device/cache_residency.h"
#include "backend/cpu/kernel.h"
#include "base/thread_pool.h"
#include "lathe/allocator.h"

namespace lathe::cpu {

std::unique_ptr<TimedLayer> prepare_timed_layer(const LayerQuery& query, const Tactic& tactic,
                                                const Machine& machine, std::shared_ptr<ThreadPool> pool,
                                                CacheResidency& residency,
                                                std::shared_ptr<v1::Allocator> allocator = nullptr);

// What the layer needs besides its operands at the largest shapes.
int64_t layer_scratch_bytes(const LayerQuery& query, const Tactic& tactic, const Machine& machine);

}  // namespace lathe::cpu
