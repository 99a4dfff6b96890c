// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"
#include "ops/window.h"

namespace lathe::cpu {
TacticFamily col2im_tactics();
namespace {

CheckedInput list(const Extents& values) {
  const Extents extents = {static_cast<int64_t>(values.size())};
  return {.dtype = DType::Int64,
          .extents = extents,
          .constant = true,
          .value = Tensor::from<int64_t>(extents, values)};
}

LayerCase blocks_of(const Col2Im& op, const Extents& image, const Extents& block,
                    DType type = DType::Float32) {
  int64_t blocks = 1;
  const WindowSpec spec{block, op.strides, op.dilations, op.pads_begin, op.pads_end};
  for (const WindowAxis& axis : resolve_window(spec, image)) blocks *= axis.output;
  return {.op = op,
          .inputs = {{type, {2, 3 * element_count(block), blocks}}, list(image), list(block)},
          .rounding = 2};
}

TEST(Col2ImTactics, WindowsRanksAndTypes) {
  for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t dilation : {1, 2})
        for (const int64_t pad : {0, 2}) {
          const Ints s = {stride, 1}, d = {dilation, dilation}, p = {pad, 0};
          EXPECT_GE(check_layer(col2im_tactics(), blocks_of({s, d, p, p}, {9, 11}, {3, 2}, type)), 1);
          EXPECT_GE(check_layer(col2im_tactics(),
                                blocks_of({{stride}, {dilation}, {pad}, {pad + 1}}, {40}, {4}, type)),
                    1);
          EXPECT_GE(check_layer(col2im_tactics(),
                                blocks_of({{1, 2, stride}, {1, 1, dilation}, {0, 1, pad}, {0, 1, 0}},
                                          {4, 5, 8}, {2, 3, 2}, type)),
                    1);
        }
}

TEST(Col2ImTactics, StepsLongerThanTheImage) {
  EXPECT_GE(check_layer(col2im_tactics(), blocks_of({{50, 50}, {1, 1}, {2, 2}, {2, 2}}, {9, 11}, {3, 2})), 1);
  EXPECT_GE(check_layer(col2im_tactics(), blocks_of({{8, 8}, {1, 1}, {0, 0}, {0, 0}}, {40, 41}, {16, 16})),
            1);
  constexpr int64_t kHuge = (int64_t{1} << 31) - 1;
  EXPECT_GE(
      check_layer(col2im_tactics(), blocks_of({{kHuge, kHuge}, {1, 1}, {0, 0}, {0, 0}}, {9, 11}, {3, 2})), 1);
}

// Rows of one and of several bands, in one line and in several.
TEST(Col2ImTactics, WideImagesAndManySteps) {
  for (const int64_t stride : {1, 2, 3, 5, 8})
    for (const int64_t width : {33, 700})
      EXPECT_GE(check_layer(col2im_tactics(),
                            blocks_of({{2, stride}, {1, 1}, {1, 1}, {0, 1}}, {20, width}, {3, 7})),
                1);
}

TEST(Col2ImTactics, RefusesABlockOfRunTime) {
  LayerCase layer = blocks_of({{1, 1}, {1, 1}, {0, 0}, {0, 0}}, {4, 4}, {2, 2});
  layer.inputs[2].constant = false;
  const std::vector<std::string> why = refusals(col2im_tactics(), layer);
  ASSERT_EQ(why.size(), 1u);
  EXPECT_NE(why[0].find("the block is known only at run time"), std::string::npos) << why[0];
}

}  // namespace
}  // namespace lathe::cpu
