// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily interpolate_tactics();
namespace {

LayerCase resized(Resize op, Extents x) {
  return {.op = std::move(op),
          .inputs = {{.extents = std::move(x)}},
          .allowed_types = {DType::BFloat16, DType::Float16}};
}

TEST(InterpolateTactics, ModesCoordinatesAndFormats) {
  for (const ResizeMode mode : {ResizeMode::Linear, ResizeMode::Cubic})
    for (const auto coordinates : {CoordinateMode::HalfPixel, CoordinateMode::Asymmetric,
                                   CoordinateMode::AlignCorners, CoordinateMode::PytorchHalfPixel})
      for (const bool antialias : {false, true}) {
        Resize op{
            .mode = mode, .coordinates = coordinates, .antialias = antialias, .scales = {1, 1, 2, 1.6f}};
        EXPECT_GE(check_layer(interpolate_tactics(), resized(op, {2, 20, 5, 7})), 9);
        op.scales = {};
        op.axes = {2, 3};
        op.sizes = to_shape(Extents{3, 11});
        EXPECT_GE(check_layer(interpolate_tactics(), resized(op, {1, 16, 5, 7})), 9);
        op.exclude_outside = true;
        op.sizes = to_shape(Extents{9, 2});
        EXPECT_GE(check_layer(interpolate_tactics(), resized(op, {1, 3, 5, 7})), 9);
      }
}

TEST(InterpolateTactics, OneDimAndOneLine) {
  EXPECT_GE(check_layer(interpolate_tactics(),
                        resized({.mode = ResizeMode::Linear, .scales = {1, 1, 3}}, {2, 3, 5})),
            9);
  EXPECT_GE(check_layer(interpolate_tactics(),
                        resized({.mode = ResizeMode::Linear, .scales = {1, 1, 1, 3}}, {2, 3, 5, 1})),
            9);
}

TEST(InterpolateTactics, ThreeDimsAndMore) {
  for (const ResizeMode mode : {ResizeMode::Linear, ResizeMode::Cubic})
    for (const bool antialias : {false, true}) {
      Resize op{.mode = mode, .antialias = antialias, .scales = {1, 1, 2, 1.6f, 0.7f}};
      EXPECT_GE(check_layer(interpolate_tactics(), resized(op, {2, 20, 3, 5, 7})), 9);
      op.scales = {1, 1, 0.6f, 1, 2};
      EXPECT_GE(check_layer(interpolate_tactics(), resized(op, {1, 3, 5, 4, 6})), 9);
    }
  EXPECT_GE(
      check_layer(interpolate_tactics(),
                  resized({.mode = ResizeMode::Linear, .scales = {1, 1, 2, 2, 2, 2}}, {1, 2, 3, 2, 4, 3})),
      9);
}

TEST(InterpolateTactics, SaysWhyNot) {
  const auto reasons =
      refusals(interpolate_tactics(), {.op = Resize{.mode = ResizeMode::Linear, .scales = {2, 1, 2, 2}},
                                       .inputs = {{.extents = {1, 3, 4, 4}}}});
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("batch or channels are resized too"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
