// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily deform_conv_tactics();
namespace {

struct DeformConvProblem {
  Extents x = {1, 4, 9, 8}, w = {6, 4, 3, 3};
  int64_t offset_groups = 1, stride = 1, dilation = 1, pad = 1;
  bool bias = true, mask = true, constant = true;
  DType type = DType::Float32;
  double reach = 3;  // of offsets
};

LayerCase deform_conv_layer(const DeformConvProblem& p) {
  const DeformConv op{.kernel = {p.w[2], p.w[3]},
                      .strides = {p.stride, p.stride},
                      .dilations = {p.dilation, p.dilation},
                      .pads_begin = {p.pad, p.pad},
                      .pads_end = {p.pad, p.pad},
                      .groups = p.x[1] / p.w[1],
                      .offset_groups = p.offset_groups};
  const auto out = [&](int64_t extent, int64_t kernel) {
    return (extent + 2 * p.pad - (kernel - 1) * p.dilation - 1) / p.stride + 1;
  };
  const int64_t taps = p.w[2] * p.w[3] * p.offset_groups, h = out(p.x[2], p.w[2]), w = out(p.x[3], p.w[3]);
  LayerCase layer{.op = op,
                  .inputs = {{p.type, p.x},
                             {p.type, p.w, p.constant},
                             {p.type, {p.x[0], 2 * taps, h, w}, false, -p.reach, p.reach},
                             {p.type, {p.w[0]}, false, -2, 2, !p.bias}},
                  .rounding = 2};
  if (p.mask) layer.inputs.push_back({p.type, {p.x[0], taps, h, w}, false, 0, 1});
  return layer;
}

TEST(DeformConvTactics, GroupsMasksAndWindows) {
  for (const int64_t offset_groups : {1, 2})
    for (const int64_t per_group : {4, 2, 1})
      for (const bool constant : {true, false})
        for (const bool optional : {true, false}) {
          const DeformConvProblem p{.x = {2, 4, 9, 8},
                                    .w = {8, per_group, 3, 2},
                                    .offset_groups = offset_groups,
                                    .stride = 1 + offset_groups % 2,
                                    .dilation = optional ? 1 : 2,
                                    .bias = optional,
                                    .mask = !optional,
                                    .constant = constant};
          EXPECT_GE(check_layer(deform_conv_tactics(), deform_conv_layer(p)), 1);
        }
}

TEST(DeformConvTactics, TypesDeepSumsAndFarOffsets) {
  for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16})
    EXPECT_GE(check_layer(deform_conv_tactics(), deform_conv_layer({.type = type})), 1);
  EXPECT_GE(
      check_layer(deform_conv_tactics(), deform_conv_layer({.x = {1, 70, 11, 10}, .w = {17, 70, 3, 3}})), 1);
  EXPECT_GE(check_layer(deform_conv_tactics(), deform_conv_layer({.reach = 1e9})), 1);
  EXPECT_GE(check_layer(deform_conv_tactics(), deform_conv_layer({.x = {0, 4, 9, 8}})), 1);
}

TEST(DeformConvTactics, Epilogue) {
  LayerCase layer = deform_conv_layer({.x = {2, 4, 9, 8}});
  layer.epilogue = PointwiseProgram::parse("Relu(0) Add(1,2)", 2);
  layer.operands = {{.extents = {2, 6, 9, 8}}};
  EXPECT_GE(check_layer(deform_conv_tactics(), layer), 1);
}

TEST(DeformConvTactics, RefusesWeightsOfRunTimeInHalves) {
  const std::vector<std::string> why =
      refusals(deform_conv_tactics(), deform_conv_layer({.constant = false, .type = DType::Float16}));
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why[0].find("weights of run time that are not float32"), std::string::npos) << why[0];
}

}  // namespace
}  // namespace lathe::cpu
