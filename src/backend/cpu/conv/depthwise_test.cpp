// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily depthwise_tactics();
namespace {

LayerCase depthwise(int64_t channels, int64_t height, int64_t width, int64_t kernel, int64_t stride,
                    int64_t dilation = 1) {
  const int64_t pad = kernel / 2 * dilation;
  return {.op = Conv{.kernel = {kernel, kernel},
                     .strides = {stride, stride},
                     .dilations = {dilation, dilation},
                     .pads_begin = {pad, pad},
                     .pads_end = {pad, pad},
                     .groups = channels},
          .inputs = {{.extents = {2, channels, height, width}},
                     {.extents = {channels, 1, kernel, kernel}, .constant = true},
                     {.extents = {channels}, .constant = true}},
          .allowed_types = {DType::BFloat16}};
}

TEST(DepthwiseTactics, WindowsStridesAndTails) {
  for (const int64_t channels : {20, 64})
    for (const int64_t kernel : {1, 3, 5, 7})
      for (const int64_t stride : {1, 2, 3}) {
        SCOPED_TRACE(std::to_string(channels) + " " + std::to_string(kernel) + " " + std::to_string(stride));
        EXPECT_GE(check_layer(depthwise_tactics(), depthwise(channels, 9, 23, kernel, stride)), 4);
      }
  EXPECT_GE(check_layer(depthwise_tactics(), depthwise(32, 2, 3, 5, 1)), 4);
  EXPECT_GE(check_layer(depthwise_tactics(), depthwise(32, 12, 13, 3, 1, 2)), 4);
  // Rows that are gathered: pixels far apart, other windows, dilations.
  EXPECT_GE(check_layer(depthwise_tactics(), depthwise(256, 19, 40, 3, 1)), 4);
  EXPECT_GE(check_layer(depthwise_tactics(), depthwise(264, 17, 40, 5, 2)), 4);
  for (const int64_t kernel : {2, 9, 11})
    for (const int64_t stride : {1, 3})
      EXPECT_GE(check_layer(depthwise_tactics(), depthwise(24, 14, 29, kernel, stride)), 4);
  EXPECT_GE(check_layer(depthwise_tactics(), depthwise(24, 14, 29, 5, 2, 3)), 4);
  EXPECT_GE(check_layer(depthwise_tactics(), depthwise(24, 2, 3, 3, 1, 3000)), 4);  // too far apart for that
  // A member begins with a window that wants a lower row than the one behind it.
  EXPECT_GE(check_layer(depthwise_tactics(), depthwise(64, 3, 400, 5, 1, 2)), 4);
  LayerCase padding = depthwise(24, 2, 2, 3, 10);  // no window reaches the data
  std::get<Conv>(padding.op).pads_begin = {10, 10};
  EXPECT_GE(check_layer(depthwise_tactics(), padding), 4);
}

TEST(DepthwiseTactics, Epilogues) {
  LayerCase layer = depthwise(40, 7, 11, 3, 1);
  layer.epilogue = PointwiseProgram::parse("Clip[0,6](0)", 1);
  EXPECT_GE(check_layer(depthwise_tactics(), layer), 4);
  layer.epilogue = PointwiseProgram::parse("Silu[1](0) Mul(3,1) Add(4,2)", 3);
  layer.operands = {{.extents = {1, 40, 1, 1}, .constant = true}, {.extents = {2, 40, 7, 11}}};
  EXPECT_GE(check_layer(depthwise_tactics(), layer), 4);
}

TEST(DepthwiseTactics, OneDimWithoutBias) {
  EXPECT_GE(check_layer(depthwise_tactics(),
                        {.op = Conv{.kernel = {3}, .groups = 24},
                         .inputs = {{.extents = {2, 24, 19}}, {.extents = {24, 1, 3}, .constant = true}}}),
            2);
}

TEST(DepthwiseTactics, SaysWhyNot) {
  LayerCase layer = depthwise(8, 5, 5, 3, 1);
  layer.inputs[1].constant = false;
  const auto reasons = refusals(depthwise_tactics(), layer);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("weights are not constant"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
