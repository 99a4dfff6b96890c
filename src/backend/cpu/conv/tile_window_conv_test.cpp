// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily tile_window_conv_tactics();
namespace {

LayerCase window_conv_case(Extents x, int64_t out, Conv op) {
  const int64_t in = x[1];
  LayerCase layer{.op = op,
                  .inputs = {{.extents = std::move(x)},
                             {.extents = {out, in, op.kernel[0], op.kernel[1]}, .constant = true},
                             {.extents = {out}, .constant = true}}};
  layer.tolerance = 5e-6;
  layer.allowed_types = {DType::BFloat16};
  return layer;
}

// FP32, and BF16 to either where the machine has its dot products.
int tactics_here() {
  return has_avx512_bf16() ? 3 : 1;
}

TEST(TileWindowConv, WindowsStridesPadsAndDilations) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const int64_t out : {5, 24, 70})
    for (const int64_t in : {16, 21, 300}) {
      SCOPED_TRACE(std::to_string(in) + " to " + std::to_string(out));
      const auto check = [&](const Conv& op) {
        EXPECT_GE(check_layer(tile_window_conv_tactics(), window_conv_case({2, in, 9, 7}, out, op)),
                  in % 2 == 0 ? tactics_here() : 1);
      };
      check({.kernel = {3, 3}, .pads_begin = {1, 1}, .pads_end = {1, 1}});
      check({.kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}});
      check({.kernel = {5, 2}, .strides = {1, 3}, .pads_begin = {2, 0}, .pads_end = {1, 1}});
      check({.kernel = {2, 3}, .dilations = {3, 2}, .pads_begin = {0, 2}, .pads_end = {0, 2}});
      check({.kernel = {1, 1}, .pads_begin = {1, 0}, .pads_end = {0, 1}});
    }
}

// More lines than a block has, blocks that end inside of an image, and many panels.
TEST(TileWindowConv, Blocks) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  const Conv op{.kernel = {3, 3}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  EXPECT_GE(check_layer(tile_window_conv_tactics(), window_conv_case({1, 512, 23, 23}, 40, op)),
            tactics_here());
  EXPECT_GE(check_layer(tile_window_conv_tactics(), window_conv_case({9, 512, 5, 4}, 40, op)),
            tactics_here());
  EXPECT_GE(check_layer(tile_window_conv_tactics(), window_conv_case({1, 80, 18, 18}, 900, op)),
            tactics_here());
  const Conv strided{.kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  EXPECT_GE(check_layer(tile_window_conv_tactics(), window_conv_case({7, 512, 9, 9}, 70, strided)),
            tactics_here());
}

TEST(TileWindowConv, Epilogues) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const char* epilogue : {"Relu(0)", "Silu[1](0)", "Add(0,1) Relu(2)", "HardSwish(0) Add(2,1)",
                               "Relu(0) Clip[-1,1e4](2) RoundTo[9.5e-7](3)"}) {
    SCOPED_TRACE(epilogue);
    LayerCase layer =
        window_conv_case({2, 130, 10, 9}, 48, {.kernel = {3, 3}, .pads_begin = {1, 1}, .pads_end = {1, 1}});
    layer.epilogue = PointwiseProgram::parse(epilogue, 2);
    layer.operands = {{.extents = {2, 48, 10, 9}}};
    EXPECT_GE(check_layer(tile_window_conv_tactics(), layer), tactics_here());
  }
}

TEST(TileWindowConv, SaysWhyNot) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  const auto reasons =
      refusals(tile_window_conv_tactics(), window_conv_case({1, 3, 6, 6}, 16, {.kernel = {3, 3}}));
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("fewer than 16 channels"), std::string::npos) << reasons[0];
  // FP32, and BF16 to either.
  EXPECT_EQ(
      refusals(tile_window_conv_tactics(), window_conv_case({1, 17, 6, 6}, 16, {.kernel = {3, 3}})).size(),
      2U);
}

}  // namespace
}  // namespace lathe::cpu
