// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/tactic.h"

namespace lathe::cpu {

// Whether a Reduce layer has a vector kernel in linear format and its own type (reduce.cpp).
bool has_vector_reduction(const LayerQuery& query);

}  // namespace lathe::cpu
