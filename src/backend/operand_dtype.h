// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

namespace lathe {

// The type in which a computed operand of a pointwise program comes to a layer that writes `result`. Floats
// follow the result, so that a bfloat16 network stays in bfloat16. But an operand that is broadcast keeps its
// own type in a bfloat16 layer: it is small, and all elements that meet one of its values share that value's
// rounding error (see passes/mark_precisions.cpp).
DType operand_dtype(const Value& operand, const Shape& result_shape, DType result);

}  // namespace lathe
