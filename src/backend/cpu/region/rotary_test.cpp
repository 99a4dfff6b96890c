// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily rotary_tactics();
namespace {

TEST(RotaryTactics, WidthsPairsAndTypes) {
  for (const bool interleaved : {false, true})
    for (const int64_t width : {2, 6, 16, 36, 64}) {  // of 64; whole and broken vectors
      SCOPED_TRACE(width);
      const LayerCase layer{.op = Rotary{interleaved},
                            .inputs = {{.extents = {7, width}, .constant = true},
                                       {.extents = {7, width}, .constant = true},
                                       {.extents = {2, 3, 7, 64}}},
                            .allowed_types = {DType::BFloat16, DType::Float16}};
      EXPECT_GE(check_layer(rotary_tactics(), layer), 3);
    }
}

TEST(RotaryTactics, SeveralOperandsAndAnglesOfEachItem) {
  const LayerCase layer{.op = Rotary{},
                        .inputs = {{.extents = {2, 7, 1, 8}},
                                   {.extents = {7, 1, 8}},
                                   {.extents = {2, 7, 5, 8}},
                                   {.extents = {2, 7, 1, 12}}},
                        .outputs = 2};
  EXPECT_GE(check_layer(rotary_tactics(), layer), 1);
}

TEST(RotaryTactics, RefusesDoubles) {
  const auto reasons = refusals(
      rotary_tactics(),
      {.op = Rotary{},
       .inputs = {{.extents = {4, 8}}, {.extents = {4, 8}}, {.dtype = DType::Float64, .extents = {4, 8}}}});
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("no vector kernel for float64"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
