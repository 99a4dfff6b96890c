// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily winograd_tactics();
namespace {

LayerCase winograd_case(Extents x, int64_t out, int64_t pad = 1) {
  const int64_t in = x[1];
  return {.op = Conv{.kernel = {3, 3}, .pads_begin = {pad, pad}, .pads_end = {pad, pad}},
          .inputs = {{.extents = std::move(x)},
                     {.extents = {out, in, 3, 3}, .constant = true},
                     {.extents = {out}, .constant = true}},
          .allowed_types = {DType::BFloat16}};
}

TEST(Winograd, SizesPadsAndChannels) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const int64_t pad : {0, 1, 2})
    for (const int64_t size : {3, 4, 7, 14})
      for (const int64_t channels : {16, 48}) {
        SCOPED_TRACE(std::to_string(pad) + " " + std::to_string(size) + " " + std::to_string(channels));
        EXPECT_GE(check_layer(winograd_tactics(), winograd_case({2, channels, size, size + 2}, 80, pad)), 4);
      }
  EXPECT_GE(check_layer(winograd_tactics(), winograd_case({3, 256, 9, 5}, 64)), 4);
}

TEST(Winograd, Epilogues) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const char* epilogue : {"Relu(0)", "Silu[1](0)", "Add(0,1) Relu(2)", "HardSwish(0) Add(2,1)",
                               "Relu(0) Clip[-1,1e4](2) RoundTo[9.5e-7](3)"}) {
    SCOPED_TRACE(epilogue);
    LayerCase layer = winograd_case({2, 32, 10, 9}, 48);
    layer.epilogue = PointwiseProgram::parse(epilogue, 2);
    layer.operands = {{.extents = {2, 48, 10, 9}}};
    EXPECT_GE(check_layer(winograd_tactics(), layer), 4);
  }
}

TEST(Winograd, SaysWhyNot) {
  LayerCase layer = winograd_case({1, 20, 6, 6}, 16);
  auto reasons = refusals(winograd_tactics(), layer);
  ASSERT_FALSE(reasons.empty());
  if (has_avx512()) {
    EXPECT_NE(reasons[0].find("multiples of 16"), std::string::npos) << reasons[0];
  }
  layer.op = Conv{.kernel = {3, 3}, .strides = {2, 2}};
  EXPECT_EQ(check_layer(winograd_tactics(), layer), 0);
}

}  // namespace
}  // namespace lathe::cpu
