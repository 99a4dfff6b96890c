// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily grid_sample_tactics();
namespace {

constexpr DType kGridTypes[] = {DType::Float32, DType::Float16, DType::BFloat16};
constexpr ResizeMode kModes[] = {ResizeMode::Nearest, ResizeMode::Linear, ResizeMode::Cubic};
constexpr GridPadding kPaddings[] = {GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection};

TEST(GridSampleTactics, ModesPaddingsAndRanks) {
  for (const ResizeMode mode : kModes)
    for (const GridPadding padding : kPaddings)
      for (const bool align : {false, true})
        for (const Extents& spatial : {Extents{7}, Extents{6, 9}, Extents{3, 4, 5}}) {
          const auto rank = static_cast<int64_t>(spatial.size());
          Extents x = {2, 5}, grid = {2};
          x.insert(x.end(), spatial.begin(), spatial.end());
          grid.insert(grid.end(), spatial.begin(), spatial.end());
          grid.back() += 3;
          grid.push_back(rank);
          EXPECT_GE(check_layer(grid_sample_tactics(),
                                {.op = GridSample{mode, padding, align},
                                 .inputs = {{.extents = x}, {.extents = grid, .low = -1.6, .high = 1.6}}}),
                    2);
        }
}

TEST(GridSampleTactics, TypesBlocksAndEpilogues) {
  for (const DType type : kGridTypes)
    for (const int64_t channels : {1, 3, 70}) {
      const LayerCase layer{.op = GridSample{},
                            .inputs = {{type, {1, channels, 12, 15}},
                                       {.dtype = type, .extents = {1, 13, 21, 2}, .low = -1.2, .high = 1.2}},
                            .rounding = 2};
      EXPECT_GE(check_layer(grid_sample_tactics(), layer), 2);
    }
  EXPECT_GE(
      check_layer(grid_sample_tactics(), {.op = GridSample{.padding = GridPadding::Border},
                                          .inputs = {{.extents = {2, 4, 5, 6}}, {.extents = {2, 9, 31, 2}}},
                                          .epilogue = PointwiseProgram::parse("Relu(0) Add(1,2)", 2),
                                          .operands = {{.extents = {2, 4, 9, 31}}}}),
      2);
}

TEST(GridSampleTactics, OnePixelAndNoPlaces) {
  for (const GridPadding padding : kPaddings) {
    EXPECT_GE(
        check_layer(grid_sample_tactics(),
                    {.op = GridSample{.padding = padding},
                     .inputs = {{.extents = {1, 3, 1, 1}}, {.extents = {1, 5, 5, 2}, .low = -3, .high = 3}}}),
        2);
    EXPECT_GE(check_layer(grid_sample_tactics(),
                          {.op = GridSample{.padding = padding},
                           .inputs = {{.extents = {1, 3, 4, 4}}, {.extents = {1, 0, 5, 2}}}}),
              2);
  }
}

}  // namespace
}  // namespace lathe::cpu
