// SPDX-License-Identifier: Apache-2.0
//
// The same elements in another type or format.
#pragma once

#include <memory>

#include "backend/cpu/kernel.h"
#include "ir/format.h"

namespace lathe::cpu {

// The layer that does it: one operand and one result of these types, whose elements are the same.
std::unique_ptr<PreparedLayer> prepare_reformat(const TensorType& from, const TensorType& to,
                                                const Extents& extents, const Machine& machine, int threads);

}  // namespace lathe::cpu
