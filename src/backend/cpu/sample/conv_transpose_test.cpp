// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily conv_transpose_tactics();
namespace {

LayerCase conv_transpose_layer(const ConvTranspose& op, Extents x, Extents w, bool constant,
                               DType type = DType::Float32) {
  const int64_t filters = w[1] * op.groups;
  return {.op = op,
          .inputs = {{type, std::move(x)}, {type, std::move(w), constant}, {type, {filters}}},
          .rounding = 2};
}

TEST(ConvTransposeTactics, WindowsGroupsAndTypes) {
  for (const bool constant : {true, false})
    for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16})
      for (const int64_t groups : {1, 3})
        for (const int64_t stride : {1, 2, 3}) {
          const ConvTranspose op{.kernel = {3, 2},
                                 .strides = {stride, stride},
                                 .dilations = {2, 1},
                                 .pads_begin = {1, 0},
                                 .pads_end = {0, 1},
                                 .output_padding = {stride - 1, 0},
                                 .groups = groups};
          EXPECT_GE(check_layer(conv_transpose_tactics(),
                                conv_transpose_layer(op, {2, 6, 5, 7}, {6, 17, 3, 2}, constant, type)),
                    1);
        }
}

TEST(ConvTransposeTactics, SizesAndPadsThatFollow) {
  for (const AutoPad pad : {AutoPad::SameUpper, AutoPad::SameLower, AutoPad::Valid}) {
    const ConvTranspose op{.kernel = {4, 4}, .strides = {2, 2}, .auto_pad = pad};
    EXPECT_GE(
        check_layer(conv_transpose_tactics(), conv_transpose_layer(op, {1, 3, 6, 6}, {3, 5, 4, 4}, true)), 1);
  }
  const ConvTranspose sized{.kernel = {3, 3}, .strides = {2, 2}, .output_shape = {12, 11}};
  EXPECT_GE(
      check_layer(conv_transpose_tactics(), conv_transpose_layer(sized, {1, 3, 6, 6}, {3, 5, 3, 3}, true)),
      1);
}

TEST(ConvTransposeTactics, RanksDeepSumsAndEpilogues) {
  EXPECT_GE(check_layer(conv_transpose_tactics(),
                        conv_transpose_layer({.kernel = {5}, .strides = {2}}, {2, 4, 30}, {4, 3, 5}, false)),
            1);
  EXPECT_GE(
      check_layer(conv_transpose_tactics(), conv_transpose_layer({.kernel = {2, 2, 2}, .strides = {2, 2, 2}},
                                                                 {1, 4, 3, 4, 5}, {4, 3, 2, 2, 2}, false)),
      1);
  EXPECT_GE(
      check_layer(conv_transpose_tactics(), conv_transpose_layer({.kernel = {1, 1}, .strides = {1, 1}},
                                                                 {1, 600, 3, 3}, {600, 3, 1, 1}, false)),
      1);
  LayerCase layer =
      conv_transpose_layer({.kernel = {2, 2}, .strides = {2, 2}}, {1, 4, 3, 5}, {4, 6, 2, 2}, false);
  layer.epilogue = PointwiseProgram::parse("Relu(0) Add(1,2)", 2);
  layer.operands = {{.extents = {1, 6, 6, 10}}};
  EXPECT_GE(check_layer(conv_transpose_tactics(), layer), 1);
}

}  // namespace
}  // namespace lathe::cpu
