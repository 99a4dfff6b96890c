// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily patch_conv_tactics();
namespace {

LayerCase patch_layer(const Conv& op, Extents x, Extents w, bool constant = false,
                      DType type = DType::Float32) {
  const int64_t filters = w[0];
  return {.op = op,
          .inputs = {{type, std::move(x)}, {type, std::move(w), constant}, {type, {filters}}},
          .rounding = 2};
}

TEST(PatchConvTactics, WindowsGroupsAndTypes) {
  for (const bool constant : {true, false})
    for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16})
      for (const int64_t groups : {1, 3, 6})
        for (const int64_t stride : {1, 2, 3}) {
          const Conv op{.kernel = {3, 2},
                        .strides = {stride, stride},
                        .dilations = {2, 1},
                        .pads_begin = {3, 1},
                        .pads_end = {0, 2},
                        .groups = groups};
          EXPECT_GE(check_layer(patch_conv_tactics(),
                                patch_layer(op, {2, 6, 9, 11}, {18, 6 / groups, 3, 2}, constant, type)),
                    1);
        }
}

TEST(PatchConvTactics, RanksAndPadsThatFollow) {
  for (const AutoPad pad : {AutoPad::SameUpper, AutoPad::SameLower, AutoPad::Valid})
    EXPECT_GE(
        check_layer(patch_conv_tactics(), patch_layer({.kernel = {4, 4}, .strides = {2, 2}, .auto_pad = pad},
                                                      {1, 3, 9, 9}, {5, 3, 4, 4})),
        1);
  EXPECT_GE(check_layer(patch_conv_tactics(), patch_layer({.kernel = {5}, .pads_begin = {4}, .pads_end = {4}},
                                                          {2, 4, 130}, {17, 4, 5})),
            1);
  EXPECT_GE(check_layer(patch_conv_tactics(), patch_layer({.kernel = {2, 3, 2}, .pads_begin = {1, 1, 0}},
                                                          {1, 4, 5, 6, 7}, {3, 4, 2, 3, 2})),
            1);
  EXPECT_GE(check_layer(patch_conv_tactics(),
                        patch_layer({.kernel = {2, 1, 2, 1}}, {1, 2, 3, 2, 4, 5}, {3, 2, 2, 1, 2, 1})),
            1);
}

// Deep sums in several chunks of channels; one channel of more taps than a chunk has; rows 1 KB apart; wide
// panels and a single position.
TEST(PatchConvTactics, ChunksAndBlocks) {
  const Conv pixel{.kernel = {1, 1}}, window{.kernel = {3, 3}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  EXPECT_GE(check_layer(patch_conv_tactics(), patch_layer(pixel, {1, 600, 3, 3}, {70, 600, 1, 1})), 1);
  EXPECT_GE(check_layer(patch_conv_tactics(),
                        patch_layer({.kernel = {1, 1}, .groups = 2}, {2, 128, 32, 8}, {6, 64, 1, 1})),
            1);
  EXPECT_GE(check_layer(patch_conv_tactics(), patch_layer(window, {1, 64, 20, 33}, {40, 64, 3, 3})), 1);
  EXPECT_GE(check_layer(patch_conv_tactics(), patch_layer(pixel, {1, 256, 6, 7}, {30, 256, 1, 1})), 1);
  EXPECT_GE(check_layer(patch_conv_tactics(), patch_layer({.kernel = {700}}, {1, 2, 740}, {3, 2, 700})), 1);
  EXPECT_GE(check_layer(patch_conv_tactics(), patch_layer({.kernel = {6, 6}}, {1, 8, 6, 6}, {16, 8, 6, 6})),
            1);
  EXPECT_GE(check_layer(patch_conv_tactics(), patch_layer(window, {0, 4, 6, 6}, {4, 4, 3, 3})), 1);
}

TEST(PatchConvTactics, EpiloguesAndDynamicBatch) {
  LayerCase layer = patch_layer({.kernel = {2, 2}}, {2, 4, 7, 9}, {6, 4, 2, 2});
  layer.epilogue = PointwiseProgram::parse("Relu(0) Add(1,2)", 2);
  layer.operands = {{.extents = {2, 6, 6, 8}}};
  EXPECT_GE(check_layer(patch_conv_tactics(), layer), 1);
  // A number per channel, over planes too large for several rows of the evaluator to be one group.
  for (const Extents& plane : {Extents{6, 8}, Extents{18, 43}}) {
    layer = patch_layer({.kernel = {1, 1}}, {1, 1, plane[0], plane[1]}, {8, 1, 1, 1});
    layer.epilogue = PointwiseProgram::parse("Relu(0) Add(1,2)", 2);
    for (const bool constant : {true, false}) {
      layer.operands = {{.extents = {1, 8, 1, 1}, .constant = constant}};
      EXPECT_GE(check_layer(patch_conv_tactics(), layer), 1);
    }
  }
  layer = patch_layer({.kernel = {2, 2}}, {2, 4, 7, 9}, {6, 4, 2, 2});
  layer.dynamic_batch = true;
  layer.inputs[2].absent = true;
  EXPECT_GE(check_layer(patch_conv_tactics(), layer), 1);
}

// Sums that are not packed: groups in fours and one by one, rows of one and several panels, taps that read
// nothing but padding.
TEST(PatchConvTactics, OneFilterForEachGroup) {
  for (const DType type : {DType::Float32, DType::BFloat16})
    for (const int64_t groups : {1, 4, 7})
      for (const int64_t stride : {1, 2, 3})
        for (const int64_t columns : {6, 21, 75}) {
          const Conv op{.kernel = {3, 5},
                        .strides = {1, stride},
                        .dilations = {4, 1},
                        .pads_begin = {6, 3},
                        .pads_end = {4, 2},
                        .groups = groups};
          EXPECT_GE(check_layer(patch_conv_tactics(),
                                patch_layer(op, {2, 2 * groups, 5, columns}, {groups, 2, 3, 5}, false, type)),
                    1);
        }
  EXPECT_GE(
      check_layer(patch_conv_tactics(), patch_layer({.kernel = {31}, .groups = 9}, {1, 9, 100}, {9, 1, 31})),
      1);
  LayerCase layer = patch_layer({.kernel = {2, 3, 2}, .groups = 6}, {2, 6, 4, 5, 19}, {6, 1, 2, 3, 2}, true);
  layer.epilogue = PointwiseProgram::parse("Relu(0) Add(1,2)", 2);
  layer.operands = {{.extents = {2, 6, 3, 3, 18}}};
  EXPECT_GE(check_layer(patch_conv_tactics(), layer), 1);
}

// StyleGAN begins with a constant that filters of run time modulate.
TEST(PatchConvTactics, ConstantImages) {
  LayerCase layer = patch_layer({.kernel = {2, 2}}, {1, 4, 7, 9}, {6, 4, 2, 2});
  layer.inputs[0].constant = true;
  layer.allowed_types = {DType::BFloat16};
  EXPECT_GE(check_layer(patch_conv_tactics(), layer), 1);
  const std::vector<std::string> why = refusals(patch_conv_tactics(), layer);
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why[0].find("a constant of another type"), std::string::npos) << why[0];
}

}  // namespace
}  // namespace lathe::cpu
