// SPDX-License-Identifier: Apache-2.0
//
// Loops of single operations over pieces of int64 or double: what FP32 vectors cannot hold.
#pragma once

#include <cstdint>

#include "ir/pointwise.h"

namespace lathe::cpu {

struct ExactParameters {
  bool is_uint64 = false;  // the integers are bits of uint64
  double alpha = 0, beta = 0;
};

using IntegerLoop = void (*)(const int64_t* a, const int64_t* b, int64_t* out, int64_t n,
                             const ExactParameters& p);
// A loop of its own for each operation on integers that gives integers or bool.
IntegerLoop integer_loop(PointwiseCode code);

void real_loop(PointwiseCode code, const double* a, const double* b, double* out, int64_t n,
               const ExactParameters& p);
// Comparisons, IsNaN, IsInf.
void real_test_loop(PointwiseCode code, const double* a, const double* b, int64_t* out, int64_t n,
                    const ExactParameters& p);

}  // namespace lathe::cpu
