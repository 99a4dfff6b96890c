// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/conv/conv_check.h"

namespace lathe::cuda {
GeneratedFamily stem_family();
namespace {

// The family's tactics are few: all of them are emulated.
LayerCase stem(const Conv& op, const Extents& image, int64_t channels) {
  return convolution(op, image, channels, 100);
}

TEST(CudaStem, ReadsPlanesAndWritesChannelsLast) {
  std::vector<LayerCase> cases = {
      stem({.kernel = {7, 7}, .strides = {2, 2}, .pads_begin = {3, 3}, .pads_end = {3, 3}}, {2, 3, 18, 40},
           24),
      stem({.kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}}, {1, 3, 11, 37},
           72),
      stem({.kernel = {5, 4}, .strides = {1, 2}, .pads_begin = {2, 0}, .pads_end = {1, 1}}, {1, 1, 9, 26},
           14)};
  cases[0].inputs.push_back({.extents = {24}, .constant = true});
  cases[0].epilogue = PointwiseProgram::parse("Relu(0)", 1);
  cases[0].dynamic_batch = true;
  cases[2].epilogue = PointwiseProgram::parse("Add(0,1)", 2);
  cases[2].operands = {{.extents = {1, 14, 8, 12}}};
  EXPECT_GE(check_generated(stem_family(), cases), 30);
}

TEST(CudaStem, RefusesOtherWindows) {
  const auto reason = [](const LayerCase& layer) {
    const auto reasons = generated_refusals(stem_family(), layer);
    return reasons.empty() ? std::string() : reasons[0];
  };
  const Conv one{.kernel = {3, 3}, .strides = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  EXPECT_NE(reason(stem(one, {1, 3, 8, 8}, 8)).find("two columns"), std::string::npos);
  Conv two = one;
  two.strides = {2, 2};
  EXPECT_NE(reason(stem(two, {1, 8, 8, 8}, 8)).find("more than 4 channels"), std::string::npos);
  two.kernel = {3, 9};
  EXPECT_NE(reason(stem(two, {1, 3, 8, 18}, 8)).find("more than 8 columns"), std::string::npos);
}

}  // namespace
}  // namespace lathe::cuda
