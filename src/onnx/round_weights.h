// SPDX-License-Identifier: Apache-2.0
//
// Weights of a product as integers of four or eight bits, one scale for each block of k, packed as
// com.microsoft's MatMulNBits reads them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ir/tensor.h"
#include "onnx/error_compensation.h"

namespace lathe::onnx {

struct WeightRounding {
  int64_t bits = 4;    // or 8
  int64_t block = 32;  // indices of k with one scale: a power of two, 16 or more
};

struct WeightMatrix {
  int64_t k = 0, columns = 0;
  bool transposed = false;  // [columns, k] instead of [k, columns]
};

struct RoundedWeights {
  Tensor
      integers;  // uint8 [columns, blocks, block * bits / 8], lowest bits first; the zero point is the middle
  Tensor scales;  // float32 [columns, blocks]
};

// `spread`: what the rounding of each weight leaves for those behind it; columns then have no larger error of
// the output on the samples than with each weight rounded alone, as it is for null.
// The scale of a block is the one with the least squared error of some that are tried, rounded to FP16 where
// that has it, so that engines may keep two bytes of it. Throws Input for elements that are not finite;
// `name` is the weights'.
RoundedWeights round_weights(const std::string& name, std::span<const float> weights,
                             const WeightMatrix& matrix, const WeightRounding& rounding,
                             const ErrorSpread* spread = nullptr);

}  // namespace lathe::onnx
