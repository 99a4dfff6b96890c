// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on the contents of shape tensors: what is known of a result element when the operands are dims.
// A result is given only where it holds for every value of the symbols.
#pragma once

#include <optional>
#include <span>

#include "ir/pointwise.h"
#include "ir/shape.h"

namespace lathe {

// True when the dim is >= 0 for all non-negative values of its symbols; false when that is not clear.
bool is_never_negative(const Dim& dim);
std::optional<Dim> pointwise_dim(PointwiseCode code, std::span<const Dim> operands);

}  // namespace lathe
