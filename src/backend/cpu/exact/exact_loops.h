// SPDX-License-Identifier: Apache-2.0
//
// Which loop runs an operation on pieces of int64 or double, what FP32 vectors cannot hold: one of vectors
// where there is one, else one that evaluates ops/scalar.h element by element.
#pragma once

#include "backend/cpu/exact/exact_table.h"
#include "backend/cpu/kernel.h"
#include "ir/pointwise.h"

namespace lathe::cpu {

const ExactTable& exact_table(Isa isa);

// Of operations on integers that give integers or bool.
IntegerLoop integer_loop(const ExactTable& table, PointwiseCode code, bool is_uint64);
RealLoop real_loop(const ExactTable& table, PointwiseCode code);
// Comparisons, IsNaN, IsInf.
RealTestLoop real_test_loop(const ExactTable& table, PointwiseCode code);

}  // namespace lathe::cpu
