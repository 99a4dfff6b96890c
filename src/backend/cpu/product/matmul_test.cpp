// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily matmul_tactics();
TacticFamily pixel_conv_tactics();
namespace {

LayerCase matmul_layer(Extents a, Extents b, bool constant, bool transpose_b = false) {
  LayerCase layer{.op = MatMul{.transpose_b = transpose_b},
                  .inputs = {{.extents = std::move(a)}, {.extents = std::move(b), .constant = constant}}};
  layer.tolerance = 5e-6;
  return layer;
}

TEST(MatMulTactics, SizesAndTails) {
  for (const bool constant : {true, false})
    for (const int64_t m : {1, 2, 14, 15, 141})
      for (const int64_t n : {1, 16, 33})
        for (const int64_t k : {1, 7, 256, 700}) {
          if (m * n * k > 141 * 33 * 256) continue;  // a minute saved, no case lost
          SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
          EXPECT_GE(check_layer(matmul_tactics(), matmul_layer({m, k}, {k, n}, constant)), 1);
          EXPECT_GE(check_layer(matmul_tactics(), matmul_layer({m, k}, {n, k}, constant, true)), 1);
        }
}

TEST(MatMulTactics, Batches) {
  for (const bool constant : {true, false}) {
    EXPECT_GE(check_layer(matmul_tactics(), matmul_layer({2, 3, 17, 20}, {20, 40}, constant)), 1);
    EXPECT_GE(check_layer(matmul_tactics(), matmul_layer({2, 3, 17, 20}, {2, 3, 20, 40}, constant)), 1);
    EXPECT_GE(check_layer(matmul_tactics(), matmul_layer({2, 3, 17, 20}, {3, 20, 40}, constant)), 1);
    EXPECT_GE(check_layer(matmul_tactics(), matmul_layer({2, 1, 17, 20}, {3, 40, 20}, constant, true)), 1);
    EXPECT_GE(check_layer(matmul_tactics(), matmul_layer({5, 12}, {4, 12, 9}, constant)), 1);
    LayerCase stack = matmul_layer({150, 256}, {3, 256, 40}, constant);
    stack.epilogue = PointwiseProgram::parse("Add(0,1)", 2);
    stack.operands = {{.extents = {3, 1, 40}, .constant = true}};
    EXPECT_GE(check_layer(matmul_tactics(), stack), 1);
  }
}

TEST(MatMulTactics, ConstantLeftOperand) {
  for (const Extents& b : {Extents{20, 40}, Extents{1, 20, 40}, Extents{3, 20, 40}}) {
    LayerCase layer = matmul_layer({17, 20}, b, false);
    layer.inputs[0].constant = true;
    layer.allowed_types = {DType::BFloat16};
    EXPECT_GE(check_layer(matmul_tactics(), layer), 1);
  }
}

TEST(MatMulTactics, TypesAndEpilogue) {
  for (const bool constant : {true, false}) {
    LayerCase layer = matmul_layer({2, 30, 512}, {512, 50}, constant);
    layer.allowed_types = {DType::BFloat16, DType::Float16};
    EXPECT_GE(check_layer(matmul_tactics(), layer), 3);
    layer.epilogue = PointwiseProgram::parse("Add(0,1) GeluErf(3) Add(4,2)", 3);
    layer.operands = {{.extents = {50}, .constant = true}, {.extents = {2, 30, 50}}};
    EXPECT_GE(check_layer(matmul_tactics(), layer), 3);
  }
}

TEST(MatMulTactics, SaysWhyNot) {
  LayerCase layer = matmul_layer({6, 4}, {6, 5}, true);
  layer.op = MatMul{.transpose_a = true};
  const auto reasons = refusals(matmul_tactics(), layer);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("left operand is transposed"), std::string::npos) << reasons[0];
}

LayerCase pixel_conv_layer(Extents x, int64_t out, bool bias) {
  const int64_t in = x[1];
  const Ints ones(x.size() - 2, 1);
  Extents w = {out, in};
  w.insert(w.end(), ones.begin(), ones.end());
  LayerCase layer{.op = Conv{.kernel = ones}, .inputs = {{.extents = x}, {.extents = w, .constant = true}}};
  if (bias) layer.inputs.push_back({.extents = {out}, .constant = true});
  layer.tolerance = 5e-6;
  return layer;
}

TEST(PixelConvTactics, SizesBiasAndEpilogue) {
  for (const bool bias : {false, true})
    for (const int64_t out : {5, 32, 70})
      for (const int64_t in : {3, 16, 256}) {
        LayerCase layer = pixel_conv_layer({2, in, 9, 5}, out, bias);
        layer.allowed_types = {DType::BFloat16};
        EXPECT_GE(check_layer(pixel_conv_tactics(), layer), 2);
        layer.epilogue = PointwiseProgram::parse("Silu[1](0) Add(2,1)", 2);
        layer.operands = {{.extents = {2, out, 9, 5}}};
        EXPECT_GE(check_layer(pixel_conv_tactics(), layer), 2);
      }
  EXPECT_GE(check_layer(pixel_conv_tactics(), pixel_conv_layer({3, 24, 17}, 40, true)), 1);
}

TEST(PixelConvTactics, OnlyWhereItIsAProduct) {
  LayerCase layer = pixel_conv_layer({1, 8, 6, 6}, 8, false);
  layer.op = Conv{.kernel = {1, 1}, .strides = {2, 2}};
  EXPECT_EQ(check_layer(pixel_conv_tactics(), layer), 0);
  layer = pixel_conv_layer({1, 8, 6, 6}, 8, false);
  layer.inputs[1].constant = false;
  const auto reasons = refusals(pixel_conv_tactics(), layer);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("weights are not constant"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
