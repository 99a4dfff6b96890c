// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/conv/conv_check.h"

namespace lathe::cuda {
GeneratedFamily wgmma_conv_family();
namespace {

TEST(CudaWgmmaConv, WindowsWithPads) {
  LayerCase conv = convolution(
      {.kernel = {3, 3}, .strides = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}}, {2, 64, 9, 7}, 40);
  conv.inputs.push_back({.extents = {40}, .constant = true});
  conv.epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2);
  conv.operands = {{.extents = {2, 40, 9, 7}}};
  conv.dynamic_batch = true;
  EXPECT_GE(check_generated(wgmma_conv_family(), {conv}), 6);
}

TEST(CudaWgmmaConv, StridesAndDilations) {
  std::vector<LayerCase> cases = {
      convolution({.kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}},
                  {2, 72, 11, 14}, 24),
      convolution({.kernel = {2, 5},
                   .strides = {1, 3},
                   .dilations = {3, 1},
                   .pads_begin = {0, 2},
                   .pads_end = {2, 1}},
                  {1, 24, 9, 15}, 16),
      convolution({.kernel = {3, 3}, .strides = {2, 1}, .auto_pad = AutoPad::SameUpper}, {3, 16, 8, 6}, 13)};
  // A stride over single pixels: every other one of the image.
  cases.push_back(convolution({.kernel = {1, 1}, .strides = {2, 2}, .pads_begin = {0, 0}, .pads_end = {0, 0}},
                              {2, 128, 9, 9}, 72));
  EXPECT_GE(check_generated(wgmma_conv_family(), cases), 20);
}

TEST(CudaWgmmaConv, SumsOfAClusterOfBlocks) {
  LayerCase conv = convolution(
      {.kernel = {1, 1}, .strides = {1, 1}, .pads_begin = {0, 0}, .pads_end = {0, 0}}, {1, 520, 5, 7}, 72);
  conv.inputs.push_back({.extents = {72}, .constant = true});
  conv.epilogue = PointwiseProgram::parse("Silu[1,0](0)", 1);
  conv.emulated = 8;
  EXPECT_GE(check_generated(wgmma_conv_family(), {conv}), 8);
}

TEST(CudaWgmmaConv, RefusesWhatItCannotRead) {
  const auto reason = [](const LayerCase& layer) {
    const auto reasons = generated_refusals(wgmma_conv_family(), layer);
    return reasons.empty() ? std::string() : reasons[0];
  };
  const Conv square{.kernel = {3, 3}, .strides = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  EXPECT_NE(reason(convolution(square, {1, 12, 5, 5}, 8)).find("multiples of 16 bytes"), std::string::npos);
  LayerCase layer = convolution(square, {1, 16, 5, 5}, 8);
  layer.inputs[1].constant = false;
  EXPECT_NE(reason(layer).find("computed at run time"), std::string::npos);
  Conv far = square;
  far.dilations = {1, 80};
  far.pads_begin = far.pads_end = {1, 80};
  EXPECT_NE(reason(convolution(far, {1, 16, 5, 90}, 8)).find("too far apart"), std::string::npos);
}

}  // namespace
}  // namespace lathe::cuda
