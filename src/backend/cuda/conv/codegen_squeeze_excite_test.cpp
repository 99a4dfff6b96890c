// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily squeeze_excite_family();
namespace {

LayerCase squeeze_excite(const Extents& image, int64_t middle) {
  LayerCase layer{
      .op = SqueezeExcite{.squeeze = PointwiseProgram::parse("Silu[1,0](0)", 1),
                          .excite = PointwiseProgram::parse("Sigmoid(0)", 1)},
      .inputs = {{.extents = image},
                 {.extents = {middle, image[1], 1, 1}, .constant = true, .low = -0.5, .high = 0.5},
                 {.extents = {middle}, .constant = true},
                 {.extents = {image[1], middle, 1, 1}, .constant = true, .low = -0.5, .high = 0.5},
                 {.extents = {image[1]}, .constant = true}}};
  layer.allowed_types = {DType::Float16, DType::BFloat16};
  layer.tolerance = 1e-5;
  layer.rounding = 1.1;
  return layer;
}

TEST(CudaSqueezeExcite, MultipliesChannelsByTheirGates) {
  std::vector<LayerCase> cases = {squeeze_excite({2, 24, 5, 7}, 6), squeeze_excite({1, 72, 3, 1}, 10),
                                  squeeze_excite({1, 13, 2, 9}, 3)};
  cases[0].dynamic_batch = true;
  cases[1].inputs[2] = cases[1].inputs[4] = {.absent = true};
  cases[2].op = SqueezeExcite{.excite = PointwiseProgram::parse("HardSigmoid[0.2,0.5](0)", 1)};
  cases[2].epilogue = PointwiseProgram::parse("Add(0,1)", 2);
  cases[2].operands = {{.extents = {1, 13, 2, 9}}};
  EXPECT_GE(check_generated(squeeze_excite_family(), cases), 36);
}

TEST(CudaSqueezeExcite, RefusesWeightsThatAreComputed) {
  LayerCase layer = squeeze_excite({1, 16, 4, 4}, 4);
  layer.inputs[1].constant = false;
  const auto reasons = generated_refusals(squeeze_excite_family(), layer);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("computed at run time"), std::string::npos);
}

}  // namespace
}  // namespace lathe::cuda
