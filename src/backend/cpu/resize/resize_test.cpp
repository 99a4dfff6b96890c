// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily resize_tactics();
namespace {

TEST(ResizeTactics, NearestInEveryFormat) {
  for (const auto coordinates :
       {CoordinateMode::HalfPixel, CoordinateMode::Asymmetric, CoordinateMode::AlignCorners})
    for (const auto nearest : {NearestMode::RoundPreferFloor, NearestMode::Floor, NearestMode::Ceil}) {
      Resize op{.coordinates = coordinates, .nearest = nearest, .scales = {1, 1, 2, 1.6f}};
      EXPECT_GE(
          check_layer(resize_tactics(),
                      {.op = op, .inputs = {{.extents = {2, 20, 5, 7}}}, .allowed_types = {DType::BFloat16}}),
          6);
      op.scales = {};
      op.axes = {2, 3};
      op.sizes = to_shape(Extents{3, 11});
      EXPECT_GE(check_layer(resize_tactics(), {.op = op, .inputs = {{.extents = {1, 16, 5, 7}}}}), 3);
    }
}

TEST(ResizeTactics, OneSpatialDim) {
  EXPECT_GE(check_layer(resize_tactics(),
                        {.op = Resize{.scales = {1, 1, 3}}, .inputs = {{DType::UInt8, {2, 3, 5}}}}),
            3);
}

TEST(ResizeTactics, ThreeSpatialDimsAndMore) {
  EXPECT_GE(check_layer(resize_tactics(), {.op = Resize{.scales = {1, 1, 2, 0.7f, 1.6f}},
                                           .inputs = {{.extents = {2, 20, 3, 5, 7}}}}),
            3);
  EXPECT_GE(check_layer(resize_tactics(), {.op = Resize{.scales = {1, 1, 2, 1, 3, 2}},
                                           .inputs = {{DType::UInt8, {2, 3, 2, 3, 1, 5}}}}),
            3);
}

TEST(ResizeTactics, SaysWhyNot) {
  const auto reasons =
      refusals(resize_tactics(), {.op = Resize{.mode = ResizeMode::Linear, .scales = {1, 1, 2, 2}},
                                  .inputs = {{.extents = {1, 3, 4, 4}}}});
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("only nearest neighbours"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
