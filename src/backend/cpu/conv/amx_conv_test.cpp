// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily amx_conv_tactics();
namespace {

LayerCase amx_conv_case(Extents x, int64_t out, Ints kernel, int64_t stride = 1, int64_t pad = 1,
                        int64_t dilation = 1) {
  const int64_t in = x[1];
  return {.op = Conv{.kernel = kernel,
                     .strides = {stride, stride},
                     .dilations = {dilation, dilation},
                     .pads_begin = {pad, pad},
                     .pads_end = {pad, pad}},
          .inputs = {{.extents = std::move(x)},
                     {.extents = {out, in, kernel[0], kernel[1]}, .constant = true},
                     {.extents = {out}, .constant = true}},
          .allowed_types = {DType::BFloat16, DType::Float32},
          .tolerance = 5e-6};
}

TEST(AmxConv, ChannelsAndTails) {
  if (!has_avx512_bf16()) GTEST_SKIP() << "no AVX512-BF16 here";
  for (const int64_t in : {1, 3, 4, 5, 16, 20, 40, 48, 64})
    for (const int64_t out : {5, 16, 33, 80}) {
      SCOPED_TRACE(std::to_string(in) + "-" + std::to_string(out));
      EXPECT_GE(check_layer(amx_conv_tactics(), amx_conv_case({2, in, 7, 9}, out, {3, 3})), 2);
    }
}

TEST(AmxConv, WindowsStridesPadsAndDilations) {
  if (!has_avx512_bf16()) GTEST_SKIP() << "no AVX512-BF16 here";
  for (const Ints& kernel : {Ints{3, 3}, Ints{5, 5}, Ints{7, 7}, Ints{1, 3}, Ints{2, 1}})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t pad : {0, 1, 3})
        for (const int64_t dilation : {1, 2}) {
          if (dilation == 2 && kernel[0] > 5) continue;
          SCOPED_TRACE(std::to_string(kernel[0]) + "x" + std::to_string(kernel[1]) + "/" +
                       std::to_string(stride) + " pad " + std::to_string(pad) + " dilation " +
                       std::to_string(dilation));
          for (const int64_t in : {3, 32})
            EXPECT_GE(check_layer(amx_conv_tactics(),
                                  amx_conv_case({2, in, 14, 11}, 18, kernel, stride, pad, dilation)),
                      2);
        }
}

TEST(AmxConv, PadsOfOneSideAndTinyImages) {
  if (!has_avx512_bf16()) GTEST_SKIP() << "no AVX512-BF16 here";
  for (const auto& [begin, end] : {std::pair<Ints, Ints>{{0, 0}, {1, 1}}, {{2, 1}, {0, 0}}, {{0, 3}, {1, 0}}})
    for (const int64_t stride : {1, 2}) {
      LayerCase layer = amx_conv_case({3, 16, 5, 6}, 40, {3, 3}, stride);
      auto& op = std::get<Conv>(layer.op);
      op.pads_begin = begin;
      op.pads_end = end;
      EXPECT_GE(check_layer(amx_conv_tactics(), layer), 2);
    }
  EXPECT_GE(check_layer(amx_conv_tactics(), amx_conv_case({1, 32, 1, 1}, 32, {3, 3})), 2);
  EXPECT_GE(check_layer(amx_conv_tactics(), amx_conv_case({2, 32, 2, 3}, 32, {5, 5}, 1, 4)), 2);
}

TEST(AmxConv, Patches) {
  if (!has_avx512_bf16()) GTEST_SKIP() << "no AVX512-BF16 here";
  EXPECT_GE(check_layer(amx_conv_tactics(), amx_conv_case({2, 3, 48, 64}, 40, {16, 16}, 16, 0)), 2);
  EXPECT_GE(check_layer(amx_conv_tactics(), amx_conv_case({1, 3, 30, 30}, 20, {11, 11}, 4, 2)), 2);
}

// The strip does not hold the whole image.
TEST(AmxConv, Strips) {
  if (!has_avx512_bf16()) GTEST_SKIP() << "no AVX512-BF16 here";
  EXPECT_GE(check_layer(amx_conv_tactics(), amx_conv_case({1, 256, 40, 30}, 16, {3, 3})), 2);
  EXPECT_GE(check_layer(amx_conv_tactics(), amx_conv_case({1, 256, 41, 30}, 16, {3, 3}, 2)), 2);
}

// FP32 in parts: errors of a chain of roundings, and no more.
TEST(AmxConv, AllBitsOfFp32) {
  if (!has_avx512_bf16()) GTEST_SKIP() << "no AVX512-BF16 here";
  for (const int64_t in : {3, 20, 64, 256})
    for (const int64_t stride : {1, 2}) {
      LayerCase layer = amx_conv_case({2, in, 10, 9}, 48, {3, 3}, stride);
      layer.allowed_types = {};
      layer.all_bits = true;
      layer.tolerance = 0x1p-24 * std::sqrt(static_cast<double>(9 * in));
      EXPECT_GE(check_layer(amx_conv_tactics(), layer), 1);
    }
}

TEST(AmxConv, Epilogues) {
  if (!has_avx512_bf16()) GTEST_SKIP() << "no AVX512-BF16 here";
  for (const char* epilogue : {"Relu(0)", "Silu[1](0)", "Add(0,1) Relu(2)", "HardSwish(0) Add(2,1)",
                               "Tanh(0)", "Mul(0,1)", "Relu(0) Clip[-1,1e4](2) RoundTo[9.5e-7](3)"}) {
    SCOPED_TRACE(epilogue);
    LayerCase layer = amx_conv_case({2, 32, 10, 9}, 48, {3, 3});
    layer.epilogue = PointwiseProgram::parse(epilogue, 2);
    layer.operands = {{.extents = {2, 48, 10, 9}}};
    EXPECT_GE(check_layer(amx_conv_tactics(), layer), 2);
  }
}

TEST(AmxConv, SaysWhyNot) {
  LayerCase layer = amx_conv_case({1, 32, 6, 6}, 32, {3, 3});
  layer.inputs[1].constant = false;
  const auto reasons = refusals(amx_conv_tactics(), layer);
  ASSERT_FALSE(reasons.empty());
  EXPECT_TRUE(reasons[0].find("weights are not constant") != std::string::npos ||
              reasons[0].find("needs AMX") != std::string::npos)
      << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
