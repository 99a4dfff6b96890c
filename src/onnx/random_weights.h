// SPDX-License-Identifier: Apache-2.0
//
// Weights from a seed, the same on every machine. Element i depends on (seed, i) alone, so any piece can be
// made by itself.
//
// A draw is the sum of four 16-bit uniforms: close to a normal distribution out to 3.4 deviations, and exact
// in integers. What follows are single IEEE operations, each rounded (the file is compiled without
// contraction to fused multiply-add), hence the same bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace lathe::onnx {

struct WeightRecipe {
  DType dtype = DType::Float32;
  std::vector<int64_t> dims;
  double mean = 0, std = 0, min = 0, max = 0;
  bool integer = false;  // uniform in [min, max]
};

// Bytes of elements [begin, begin + count). Float32, Float16, BFloat16, Float64 and the integer types; throws
// Input for others.
std::string draw_weights(const WeightRecipe& recipe, uint64_t seed, int64_t begin, int64_t count);

}  // namespace lathe::onnx
