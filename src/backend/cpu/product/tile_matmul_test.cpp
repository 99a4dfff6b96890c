// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily tile_matmul_tactics();
TacticFamily tile_conv_tactics();
TacticFamily matmul_tactics();
namespace {

LayerCase tile_matmul_layer(Extents a, Extents b, bool transpose_b = false) {
  LayerCase layer{.op = MatMul{.transpose_b = transpose_b},
                  .inputs = {{.extents = std::move(a)}, {.extents = std::move(b), .constant = true}}};
  layer.allowed_types = {DType::BFloat16};
  layer.tolerance = 5e-6;
  return layer;
}

LayerCase tile_conv_layer(Extents x, int64_t out, bool bias, int64_t stride = 1) {
  LayerCase layer{.op = Conv{.kernel = {1, 1}, .strides = {stride, stride}},
                  .inputs = {{.extents = x}, {.extents = {out, x[1], 1, 1}, .constant = true}}};
  if (bias) layer.inputs.push_back({.extents = {out}, .constant = true});
  layer.allowed_types = {DType::BFloat16};
  layer.tolerance = 5e-6;
  return layer;
}

TEST(TileMatMul, SizesAndTails) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const int64_t m : {1, 13, 14, 15, 197})
    for (const int64_t n : {1, 16, 17, 24, 33, 64})
      for (const int64_t k : {1, 2, 30, 512}) {
        SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
        EXPECT_GE(check_layer(tile_matmul_tactics(), tile_matmul_layer({m, k}, {k, n})), 1);
        EXPECT_GE(check_layer(tile_matmul_tactics(), tile_matmul_layer({m, k}, {n, k}, true)), 1);
      }
  EXPECT_GE(check_layer(tile_matmul_tactics(), tile_matmul_layer({2, 3, 17, 20}, {1, 20, 40})), 1);
  // Members share few panels of many rows: some portions are empty.
  EXPECT_GE(check_layer(tile_matmul_tactics(), tile_matmul_layer({112, 64}, {64, 128})), 1);
  EXPECT_GE(check_layer(tile_matmul_tactics(), tile_matmul_layer({1, 17, 20}, {5, 20, 40})), 1);
}

// Rows that do not fit into L2 together take k in chunks, with sums in between.
TEST(TileMatMul, DepthInChunks) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const int64_t n : {5, 24, 70}) {
    LayerCase layer = tile_matmul_layer({230, 2500}, {2500, n});
    layer.emulated = n == 24 ? 6 : 0;  // it takes long
    EXPECT_GE(check_layer(tile_matmul_tactics(), layer), 1);
    for (const char* epilogue :
         {"Add(0,1) Add(2,3) Relu(4)", "Add(1,0) GeluErf(3) Add(4,2)", /* not in registers: */ "Sub(2,0)"}) {
      SCOPED_TRACE(epilogue);
      layer.epilogue = PointwiseProgram::parse(epilogue, 3);
      layer.operands = {{.extents = {n}, .constant = true}, {.extents = {230, n}}};
      EXPECT_GE(check_layer(tile_matmul_tactics(), layer), 1);
    }
  }
  LayerCase tall = tile_matmul_layer({2000, 800}, {3, 800, 40});
  tall.emulated = 0;
  EXPECT_GE(check_layer(tile_matmul_tactics(), tall), 1);
}

TEST(TileMatMul, EpiloguesInRegistersAndOutside) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const char* epilogue :
       {"Relu(0)", "Clip[0,6](0)", "Silu[1](0)", "Silu[1.702](0)", "GeluErf(0)", "GeluTanh(0)",
        "HardSwish(0)", "Clip[-1,1e4](0) RoundTo[9.5e-7](3)", "Add(0,1)", "Add(0,1) Add(3,2)",
        "Add(0,1) Add(2,3) Relu(4)", "Add(1,0) GeluErf(3) Add(4,2)", "Silu[1](0) Add(2,3)",
        /* not in registers: */ "Add(0,1) Tanh(3) Add(4,2)", "Mul(0,2)", "Relu(0) Add(3,1)",
        "Add(0,2) Add(3,2)", "Sub(2,0)"}) {
    SCOPED_TRACE(epilogue);
    LayerCase layer = tile_matmul_layer({2, 30, 64}, {64, 50});
    layer.epilogue = PointwiseProgram::parse(epilogue, 3);
    layer.operands = {{.extents = {50}, .constant = true}, {.extents = {2, 30, 50}}};
    EXPECT_GE(check_layer(tile_matmul_tactics(), layer), 1);
  }
}

TEST(TileMatMul, OneLeftOperandForMany) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  LayerCase layer = tile_matmul_layer({30, 64}, {3, 64, 50});
  EXPECT_GE(check_layer(tile_matmul_tactics(), layer), 1);
  layer.epilogue = PointwiseProgram::parse("Add(0,1) Add(3,2) Relu(4)", 3);
  layer.operands = {{.extents = {3, 1, 50}, .constant = true}, {.extents = {3, 30, 50}}};
  EXPECT_GE(check_layer(tile_matmul_tactics(), layer), 1);
  layer.epilogue = PointwiseProgram::parse("Add(0,1) Tanh(3) Add(4,2)", 3);
  EXPECT_GE(check_layer(tile_matmul_tactics(), layer), 1);
}

// Errors of a chain of k roundings, and no more: a product of parts that is left out shows.
TEST(TileMatMul, AllBitsOfFp32) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const auto& [m, k, n] :
       {std::tuple<int64_t, int64_t, int64_t>{40, 64, 33}, {197, 768, 80}, {240, 3072, 24}}) {
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n));
    LayerCase layer = tile_matmul_layer({m, k}, {k, n});
    layer.allowed_types = {};
    layer.all_bits = true;
    layer.tolerance = 0x1p-24 * std::sqrt(static_cast<double>(k));
    EXPECT_GE(check_layer(tile_matmul_tactics(), layer), 1);
    layer.epilogue = PointwiseProgram::parse("Add(0,1) GeluErf(2)", 2);
    layer.operands = {{.extents = {m, n}}};
    EXPECT_GE(check_layer(tile_matmul_tactics(), layer), 1);
  }
}

TEST(TileConv, SizesStridesBiasAndEpilogue) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 here";
  for (const int64_t stride : {1, 2, 3})
    for (const bool bias : {false, true})
      for (const int64_t out : {5, 32, 70})
        for (const int64_t in : {3, 16, 256}) {
          LayerCase layer = tile_conv_layer({2, in, 9, 7}, out, bias, stride);
          EXPECT_GE(check_layer(tile_conv_tactics(), layer), 1);
          layer.epilogue = PointwiseProgram::parse("Silu[1](0) Add(2,1)", 2);
          layer.operands = {{.extents = {2, out, (9 + stride - 1) / stride, (7 + stride - 1) / stride}}};
          EXPECT_GE(check_layer(tile_conv_tactics(), layer), 1);
        }
}

TEST(TileMatMul, SaysWhyNot) {
  LayerCase layer = tile_matmul_layer({6, 4}, {6, 5});
  layer.op = MatMul{.transpose_a = true};
  EXPECT_FALSE(refusals(tile_matmul_tactics(), layer).empty());
  layer = tile_matmul_layer({6, 4}, {4, 5});
  layer.inputs[1].constant = false;
  const auto reasons = refusals(tile_matmul_tactics(), layer);
  ASSERT_FALSE(reasons.empty());
  const std::string wanted = has_avx512() ? "right operand is not constant" : "needs AVX-512";
  EXPECT_NE(reasons[0].find(wanted), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
