// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily tile_transposed_conv_tactics();
namespace {

LayerCase transposed_case(Extents x, int64_t out, const ConvTranspose& op) {
  Extents w = {x[1], out};
  w.insert(w.end(), op.kernel.begin(), op.kernel.end());
  LayerCase layer{.op = op,
                  .inputs = {{.extents = std::move(x)},
                             {.extents = std::move(w), .constant = true},
                             {.extents = {out}, .constant = true}}};
  layer.tolerance = 5e-6;
  layer.allowed_types = {DType::BFloat16};
  return layer;
}

// In FP32, and for an even number of channels in BF16 to either where the machine has its dot products.
void check_transposed(const LayerCase& layer) {
  const bool in_pairs = layer.inputs[0].extents[1] % 2 == 0;
  EXPECT_GE(check_layer(tile_transposed_conv_tactics(), layer), in_pairs && has_avx512_bf16() ? 3 : 1);
}

TEST(TileTransposedConv, WindowsStridesAndPads) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const int64_t out : {9, 24, 70})
    for (const int64_t in : {2, 21, 130})
      for (const Extents& x : {Extents{2, in, 9, 7}, Extents{1, in, 1, 3}, Extents{3, in, 2, 40}}) {
        SCOPED_TRACE(std::to_string(in) + " to " + std::to_string(out));
        const auto check = [&](const ConvTranspose& op) { check_transposed(transposed_case(x, out, op)); };
        check({.kernel = {2, 2}, .strides = {2, 2}});
        check({.kernel = {4, 4}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}});
        check({.kernel = {3, 3},
               .strides = {2, 2},
               .pads_begin = {1, 1},
               .pads_end = {1, 1},
               .output_padding = {1, 1}});
        check({.kernel = {3, 5}, .pads_begin = {0, 2}, .pads_end = {1, 2}});
        check({.kernel = {5, 2}, .strides = {1, 3}, .output_padding = {0, 2}});  // results without a tap
        check({.kernel = {1, 3}, .strides = {3, 4}, .output_padding = {2, 3}});
      }
}

TEST(TileTransposedConv, OneAndThreeDims) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  check_transposed(transposed_case({2, 18, 500}, 40,
                                   {.kernel = {16}, .strides = {8}, .pads_begin = {4}, .pads_end = {4}}));
  check_transposed(transposed_case({1, 18, 3}, 40, {.kernel = {16}, .strides = {8}}));
  check_transposed(transposed_case({2, 18, 3, 4, 5}, 40, {.kernel = {2, 2, 2}, .strides = {2, 2, 2}}));
  check_transposed(transposed_case({1, 18, 3, 4, 5}, 40,
                                   {.kernel = {3, 4, 3},
                                    .strides = {2, 1, 2},
                                    .pads_begin = {1, 2, 0},
                                    .pads_end = {0, 1, 1},
                                    .output_padding = {1, 0, 1}}));
}

TEST(TileTransposedConv, SizesAndPadsThatFollow) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const AutoPad pad : {AutoPad::SameUpper, AutoPad::SameLower, AutoPad::Valid})
    check_transposed(
        transposed_case({1, 16, 6, 6}, 16, {.kernel = {4, 4}, .strides = {2, 2}, .auto_pad = pad}));
  check_transposed(
      transposed_case({1, 16, 6, 6}, 16, {.kernel = {3, 3}, .strides = {2, 2}, .output_shape = {12, 11}}));
}

// Many lines, long lines that are cut, many panels.
TEST(TileTransposedConv, Blocks) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  const ConvTranspose op{.kernel = {4, 4}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  check_transposed(transposed_case({1, 512, 23, 23}, 40, op));
  check_transposed(transposed_case({1, 600, 3, 400}, 16, op));
  check_transposed(transposed_case({9, 64, 5, 4}, 40, op));
  check_transposed(transposed_case({1, 80, 4, 4}, 900, op));
}

TEST(TileTransposedConv, Epilogues) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const char* epilogue : {"Relu(0)", "Silu[1](0)", "Add(0,1) Relu(2)", "HardSwish(0) Add(2,1)"}) {
    SCOPED_TRACE(epilogue);
    LayerCase layer = transposed_case(
        {2, 130, 10, 9}, 48, {.kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}});
    layer.epilogue = PointwiseProgram::parse(epilogue, 2);
    layer.operands = {{.extents = {2, 48, 19, 17}}};
    check_transposed(layer);
  }
}

TEST(TileTransposedConv, SaysWhyNot) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  const auto reason = [](const ConvTranspose& op, Extents x, int64_t out) {
    const auto reasons = refusals(tile_transposed_conv_tactics(), transposed_case(std::move(x), out, op));
    return reasons.empty() ? "" : reasons[0];
  };
  EXPECT_NE(reason({.kernel = {3, 3}}, {1, 16, 6, 6}, 3).find("fewer than 9 filters"), std::string::npos);
  EXPECT_NE(reason({.kernel = {3, 3}, .dilations = {2, 1}}, {1, 16, 6, 6}, 16).find("a dilation"),
            std::string::npos);
  EXPECT_NE(reason({.kernel = {1, 1}, .strides = {1 << 20, 1}}, {1, 16, 1, 1}, 16).find("phases"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe::cpu
