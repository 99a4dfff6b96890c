// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily layer_norm_tactics();
TacticFamily softmax_tactics();
namespace {

TEST(LayerNormTactics, LengthsTypesAndEpilogue) {
  for (const int64_t n : {1, 7, 16, 33, 130, 768}) {
    SCOPED_TRACE(n);
    LayerCase layer{.op = LayerNorm{.axis = -1, .epsilon = 1e-5f},
                    .inputs = {{.extents = {3, 5, n}},
                               {.extents = {n}, .constant = true},
                               {.extents = {n}, .constant = true}},
                    .allowed_types = {DType::BFloat16, DType::Float16}};
    // FP32 to each type, too.
    EXPECT_GE(check_layer(layer_norm_tactics(), layer), 5);
    layer.epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2);
    layer.operands = {{.extents = {3, 5, n}}};
    EXPECT_GE(check_layer(layer_norm_tactics(), layer), 5);
  }
}

TEST(LayerNormTactics, RmsSeveralDimsNoScale) {
  EXPECT_GE(check_layer(layer_norm_tactics(), {.op = LayerNorm{.axis = -1, .rms = true},
                                               .inputs = {{.extents = {9, 77}}, {.extents = {77}}}}),
            1);
  EXPECT_GE(
      check_layer(layer_norm_tactics(), {.op = LayerNorm{.axis = 1}, .inputs = {{.extents = {4, 5, 6}}}}), 1);
}

TEST(LayerNormTactics, LargeMeanDoesNotCancel) {
  LayerCase layer{.op = LayerNorm{.axis = -1}, .inputs = {{.extents = {64, 256}, .low = 90, .high = 110}}};
  layer.tolerance = 1e-5;
  EXPECT_GE(check_layer(layer_norm_tactics(), layer), 1);
}

TEST(LayerNormTactics, WhatLiesInFrontOfTheEpilogueIsAResultToo) {
  EXPECT_GE(check_layer(layer_norm_tactics(), {.op = LayerNorm{.axis = -1},
                                               .inputs = {{.extents = {9, 70}}, {.extents = {70}}},
                                               .epilogue = PointwiseProgram::parse("Relu(0)", 1),
                                               .outputs = 4,
                                               .unasked = {1, 2},
                                               .allowed_types = {DType::BFloat16, DType::Float16}}),
            3);
}

TEST(LayerNormTactics, RefusesStatistics) {
  const auto reasons = refusals(layer_norm_tactics(),
                                {.op = LayerNorm{.axis = -1}, .inputs = {{.extents = {4, 8}}}, .outputs = 3});
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("mean and deviation outputs"), std::string::npos) << reasons[0];
}

TEST(SoftmaxTactics, AnyAxisAndLength) {
  for (const int64_t axis : {0, 1, 2, -1})
    for (const int64_t n : {1, 5, 17, 128, 200})
      for (const bool log : {false, true}) {
        SCOPED_TRACE(std::to_string(axis) + " " + std::to_string(n));
        LayerCase layer{.op = Softmax{.axis = axis, .log = log},
                        .inputs = {{.extents = {5, 7, n}, .low = -20, .high = 20}},
                        .allowed_types = {DType::BFloat16}};
        EXPECT_GE(check_layer(softmax_tactics(), layer), 2);
      }
}

// Powers down to zero, through those that would be denormal numbers.
TEST(SoftmaxTactics, ScoresFarApart) {
  for (const int64_t axis : {1, -1})
    for (const bool log : {false, true}) {
      LayerCase layer{.op = Softmax{.axis = axis, .log = log},
                      .inputs = {{.extents = {3, 40, 50}, .low = -150, .high = 0}},
                      .allowed_types = {DType::BFloat16}};
      EXPECT_GE(check_layer(softmax_tactics(), layer), 2);
    }
}

}  // namespace
}  // namespace lathe::cpu
