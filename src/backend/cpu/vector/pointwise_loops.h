// SPDX-License-Identifier: Apache-2.0
//
// Which vector loop runs a pointwise operation.
#pragma once

#include "backend/cpu/vector/pointwise_table.h"
#include "ir/pointwise.h"

namespace lathe::cpu {

// The loop of a unary operation; null when it has none.
UnaryLoop unary_loop(const PointwiseTable& table, PointwiseCode code);
// The loops of a binary operation; null ones when it has none.
BinaryLoops binary_loops(const PointwiseTable& table, PointwiseCode code);
// Operations on integers' bits: never in FP32.
bool is_bitwise(PointwiseCode code);

}  // namespace lathe::cpu
