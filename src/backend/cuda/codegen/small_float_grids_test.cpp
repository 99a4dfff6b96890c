// SPDX-License-Identifier: Apache-2.0
//
// Generated kernels on bytes of grids of E4M3: products and convolutions of floats of 8 bits, every family
// that reads or writes them, and what other GPUs than Hopper say.
#include <gtest/gtest.h>

#include "backend/check/grid_case.h"
#include "backend/cuda/codegen/generated_check.h"
#include "backend/cuda/conv/halo_check.h"
#include "backend/cuda/device/libraries.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/product/wgmma_check.h"
#include "base/file.h"

namespace lathe::cuda {

GeneratedFamily attention_family();
GeneratedFamily copy_family();
GeneratedFamily depthwise_family();
GeneratedFamily gemm_family();
GeneratedFamily layer_norm_family();
GeneratedFamily pointwise_family();
GeneratedFamily pool_family();
GeneratedFamily reduce_family();
GeneratedFamily softmax_family();
GeneratedFamily stem_family();
GeneratedFamily wgmma_conv_family();

namespace {

std::string grid(const std::string& scale) {
  return " quantized float8e4m3fn scale [" + scale + "] zero [0]";
}

// Scales of 2^-7 and 2^-6 in turn.
std::string float_weight_grid(int64_t channels, int64_t axis) {
  std::string scales, zeros;
  for (int64_t i = 0; i < channels; ++i) {
    scales += (i ? ", " : "") + std::string(i % 2 ? "0.0078125" : "0.015625");
    zeros += i ? ", 0" : "0";
  }
  return " quantized float8e4m3fn scale [" + scales + "] zero [" + zeros + "] axis " + std::to_string(axis);
}

struct FloatGridLayer {
  std::string x = "1, 32, 9, 8", w = "24, 32, 3, 3", y = "1, 24, 9, 8", op = "Conv";
  int64_t channels = 24, axis = 0;
  std::string fields = "kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1]";
  std::string epilogue = "{RoundToE4M3[0.25](0)}", operands = "", operand_values = "";
  bool bias = true;
  std::string weight_grid_text = "";

  std::string text() const {
    return "graph \"g\" {\n input %x: float32[" + x + "]" + grid("0.03125") + "\n" + operand_values +
           " const %w: float32[" + w + "]" +
           (weight_grid_text.empty() ? float_weight_grid(channels, axis) : weight_grid_text) +
           " = random 3\n" +
           (bias ? " const %b: float32[" + std::to_string(channels) + "] = random 5\n" : "") +
           " %y: float32[" + y + "]" + grid("0.25") + " = " + op + " \"l\" (%x, %w" + (bias ? ", %b" : "") +
           operands + ") {" + fields + "} epilogue " + epilogue + "\n output %y\n}\n";
  }
};

FloatGridLayer float_grid_product(const std::string& x, const std::string& w, const std::string& y,
                                  int64_t columns) {
  FloatGridLayer layer{.x = x, .w = w, .y = y, .op = "MatMul", .channels = columns, .axis = 1, .fields = ""};
  layer.bias = false;
  return layer;
}

FloatGridLayer transposed_float_grid_product() {
  FloatGridLayer layer = float_grid_product("70, 208", "200, 208", "70, 200", 200);
  layer.fields = "transpose_b=true";
  layer.axis = 0;
  return layer;
}

// And a number for each column, and Relu.
FloatGridLayer with_residual(FloatGridLayer layer) {
  layer.operand_values = " input %r: float32[" + layer.y + "]" + grid("0.125") + "\n const %c: float32[" +
                         std::to_string(layer.channels) + "] = random 9\n";
  layer.operands = ", %r, %c";
  layer.epilogue = "3 {Add(0,2) Add(3,1) Relu(4) RoundToE4M3[0.25](5)}";
  return layer;
}

TEST(CudaSmallFloatGrids, Products) {
  const FloatGridLayer residual = with_residual(float_grid_product("2, 35, 80", "80, 40", "2, 35, 40", 40));
  const FloatGridLayer transposed = transposed_float_grid_product();
  FloatGridLayer per_tensor = float_grid_product("300, 640", "640, 48", "300, 48", 48);
  per_tensor.weight_grid_text = grid("0.0078125");
  const auto ran = check_generated_grids(wgmma_family(),
                                         {float_grid_product("70, 208", "208, 200", "70, 200", 200).text(),
                                          residual.text(), transposed.text(), per_tensor.text()},
                                         2);
  const std::string in_fp8 = "float8e4m3fn:linear undefined:linear";
  for (const char* result : {" -> float8e4m3fn", " -> float16"})
    EXPECT_TRUE(has(ran, "cuda_wgmma", in_fp8 + result)) << result << " of " << ran.size();
}

// Each column of each matrix has a scale of its own.
TEST(CudaSmallFloatGrids, StacksOfMatrices) {
  FloatGridLayer stack = float_grid_product("70, 208", "3, 208, 40", "3, 70, 40", 120);
  FloatGridLayer transposed = float_grid_product("330, 656", "2, 64, 656", "2, 330, 64", 128);
  transposed.fields = "transpose_b=true";
  transposed.axis = 2;
  const auto ran = check_generated_grids(wgmma_family(), {stack.text(), transposed.text()}, 2);
  EXPECT_GE(ran.size(), 2u * 6u);
}

TEST(CudaSmallFloatGrids, BlocksThatStayDealColumns) {
  const FloatGridLayer product = float_grid_product("70, 208", "208, 384", "70, 384", 384);
  const auto ran =
      check_generated_grids(only<kDealing, 3>(), {product.text(), with_residual(product).text()}, 3);
  EXPECT_GE(ran.size(), 2u * 3u);
  EXPECT_TRUE(has(ran, "cuda_wgmma_stay", " -> float8e4m3fn")) << ran.size();
}

TEST(CudaSmallFloatGrids, Convolutions) {
  FloatGridLayer strided{.x = "2, 48, 9, 9", .w = "40, 48, 3, 3", .y = "2, 40, 5, 5", .channels = 40};
  strided.fields = "kernel=[3, 3], strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]";
  FloatGridLayer valid{.x = "1, 144, 7, 7", .w = "32, 144, 3, 3", .y = "1, 32, 5, 5", .channels = 32};
  valid.fields = "kernel=[3, 3]";
  FloatGridLayer point{.x = "2, 64, 5, 5", .w = "33, 64, 1, 1", .y = "2, 33, 5, 5", .channels = 33};
  point.fields = "kernel=[1, 1]";
  const auto ran = check_generated_grids(
      wgmma_conv_family(), {FloatGridLayer().text(), strided.text(), valid.text(), point.text()}, 2);
  EXPECT_TRUE(has(ran, "cuda_wgmma_conv", "float8e4m3fn")) << ran.size();
  EXPECT_GE(ran.size(), 4u * 6u);
  EXPECT_GE(check_generated_grids(wgmma_family(), {point.text()}, 2).size(), 6u);
  EXPECT_GE(check_generated_grids(halo_family(), {FloatGridLayer().text(), valid.text()}, 2).size(), 2u * 6u);
  const auto kept = check_generated_grids(halo_in_teams(), {FloatGridLayer().text(), valid.text()}, 2);
  EXPECT_TRUE(has(kept, "cuda_wgmma_halo_keep_teams", "float8e4m3fn")) << kept.size();
}

TEST(CudaSmallFloatGrids, FirstConvolutions) {
  FloatGridLayer layer{.x = "2, 3, 18, 40", .w = "24, 3, 7, 7", .y = "2, 24, 9, 20"};
  layer.fields = "kernel=[7, 7], strides=[2, 2], pads_begin=[3, 3], pads_end=[3, 3]";
  const auto ran = check_generated_grids(stem_family(), {layer.text()}, 2);
  EXPECT_TRUE(has(ran, "cuda_stem", "float8e4m3fn:linear undefined:linear float32:linear -> float8e4m3fn"))
      << ran.size();
}

TEST(CudaSmallFloatGrids, WhatIsRefusedSaysWhy) {
  const auto reason = [](const FloatGridLayer& layer, const GeneratedFamily& family) {
    for (const std::string& r : generated_grid_refusals(family, layer.text()))
      if (r.find("not in FP8") != std::string::npos) return r;
    return std::string();
  };
  FloatGridLayer layer = float_grid_product("8, 24", "24, 8", "8, 8", 8);
  EXPECT_NE(reason(layer, wgmma_family()).find("multiples of 16 bytes"), std::string::npos);
  layer = float_grid_product("8, 32", "32, 8", "8, 8", 8);
  layer.weight_grid_text = " quantized int8 scale [0.01] zero [0]";
  EXPECT_NE(reason(layer, wgmma_family()).find("the weights lie on a grid of int8"), std::string::npos);
  layer = float_grid_product("8, 32", "32, 8", "8, 8", 8);
  layer.weight_grid_text = float_weight_grid(32, 0);
  EXPECT_NE(reason(layer, wgmma_family()).find("a scale per index of axis 0"), std::string::npos);
  FloatGridLayer grouped{.w = "24, 16, 3, 3"};
  grouped.fields += ", groups=2";
  EXPECT_NE(reason(grouped, wgmma_conv_family()).find("groups"), std::string::npos);
}

// One operand on a grid, and a result on another.
std::string one_on_floats(const std::string& x, const std::string& y, const std::string& op,
                          const std::string& fields,
                          const std::string& epilogue = " epilogue {RoundToE4M3[0.0625](0)}",
                          const std::string& result = "0.0625") {
  return "graph \"g\" {\n input %x: float32[" + x + "]" + grid("0.03125") + "\n %y: float32[" + y + "]" +
         grid(result) + " = " + op + " \"l\" (%x) {" + fields + "}" + epilogue + "\n output %y\n}\n";
}

TEST(CudaSmallFloatGrids, Pointwise) {
  const auto ran = check_generated_grids(
      pointwise_family(),
      {"graph \"g\" {\n input %a: float32[2, 16, 5, 3]" + grid("0.03125") +
       "\n input %b: float32[2, 16, 5, 3] quantized uint8 scale [0.0625] zero [9]\n"
       " input %c: float32[16, 1, 1]\n %y: float32[2, 16, 5, 3]" +
       grid("0.0625") +
       " = PointwiseChain \"l\" (%a, %b, %c) {program=3 {Mul(0,2) Add(3,1) RoundToE4M3[0.0625](4)}}\n"
       " output %y\n}\n"});
  for (const char* types : {"float8e4m3fn", "uint8", "-> float16", "-> float8e4m3fn"})
    EXPECT_TRUE(has(ran, "cuda_pointwise", types)) << types;
}

TEST(CudaSmallFloatGrids, WindowsAndSums) {
  const std::string pool = "kind=Max, kernel=[3, 3], strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]";
  EXPECT_GE(check_generated_grids(pool_family(), {one_on_floats("2, 16, 9, 9", "2, 16, 5, 5", "Pool", pool),
                                                  one_on_floats("1, 3, 9, 9", "1, 3, 5, 5", "Pool", pool)})
                .size(),
            8u);
  EXPECT_GE(check_generated_grids(reduce_family(), {one_on_floats("2, 32, 7, 7", "2, 32, 1, 1", "Reduce",
                                                                  "kind=Mean, axes=[2, 3], keepdims=true")})
                .size(),
            8u);
  FloatGridLayer depthwise{.x = "1, 32, 9, 8", .w = "32, 1, 3, 3", .y = "1, 32, 9, 8", .channels = 32};
  depthwise.fields = "kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1], groups=32";
  EXPECT_GE(check_generated_grids(depthwise_family(), {depthwise.text()}).size(), 8u);
}

TEST(CudaSmallFloatGrids, Rows) {
  EXPECT_GE(
      check_generated_grids(softmax_family(), {one_on_floats("6, 40", "6, 40", "Softmax", "axis=1",
                                                             " epilogue {RoundToE4M3[0.002](0)}", "0.002")})
          .size(),
      1u);
  EXPECT_GE(check_generated_grids(layer_norm_family(),
                                  {"graph \"g\" {\n input %x: float32[6, 72]\n const %s: float32[72] = "
                                   "random 3\n const %b: float32[72] = random 4\n %y: float32[6, 72]" +
                                   grid("0.0625") +
                                   " = LayerNorm \"l\" (%x, %s, %b) {axis=1} epilogue "
                                   "{RoundToE4M3[0.0625](0)}\n output %y\n}\n"})
                .size(),
            1u);
}

TEST(CudaSmallFloatGrids, Moved) {
  const auto ran = check_generated_grids(
      copy_family(), {one_on_floats("2, 32, 24", "2, 24, 32", "Transpose", "perm=[0, 2, 1]", "", "0.03125")});
  EXPECT_TRUE(has(ran, "cuda_copy", "float8e4m3fn"));
  const char* const types[] = {"float32", "float16", "float8e4m3fn"};
  for (const std::string from : types)
    for (const std::string to : types) {
      if (from == to || (from != types[2] && to != types[2])) continue;
      EXPECT_EQ(check_generated_grids(
                    copy_family(), {"graph \"g\" {\n input %x: " + from + "[2, 40, 3, 7]" + grid("0.0625") +
                                    "\n %y: " + to + "[2, 40, 3, 7]:channels_last" + grid("0.0625") +
                                    " = Reformat \"r\" (%x) {}\n output %y\n}\n"})
                    .size(),
                1u)
          << from << " to " << to;
    }
}

// Tensor cores from Ada on multiply tiles of FP8 (on Hopper its own products do).
TEST(CudaSmallFloatGrids, TilesOfOtherGpus) {
  const FloatGridLayer transposed = transposed_float_grid_product();
  const std::string path = "tests/devices/sm_89_l4.json";
  const auto device = describe_device(DeviceProperties::from_json(read_file(path), path));
  const auto ran = check_generated_grids(
      gemm_family(),
      {float_grid_product("70, 208", "208, 200", "70, 200", 200).text(), transposed.text(),
       float_grid_product("70, 208", "3, 208, 40", "3, 70, 40", 120).text(), FloatGridLayer().text()},
      3, device);
  EXPECT_TRUE(has(ran, "cuda_gemm_mma", "float8e4m3fn")) << ran.size();
  EXPECT_GE(ran.size(), 4u * 6u);
}

// Before Ada products compute in floats, and nothing stores FP8.
TEST(CudaSmallFloatGrids, OtherGpusSayWhyTheyHaveNone) {
  const GridCase layer(float_grid_product("64, 128", "128, 64", "64, 64", 64).text(), {DType::Float16});
  const GridCase pool(one_on_floats("1, 16, 9, 9", "1, 16, 4, 4", "Pool", "kernel=[3, 3], strides=[2, 2]"));
  for (const char* name :
       {"sm_80_a100", "sm_86_a10", "sm_89_l4", "sm_90_h100", "sm_100_b200", "sm_120_rtx5090"}) {
    SCOPED_TRACE(name);
    const std::string path = std::string("tests/devices/") + name + ".json";
    const auto device = describe_device(DeviceProperties::from_json(read_file(path), path));
    int in_fp8 = 0, in_floats = 0, refused = 0;
    for (const TacticFamily& family : tactic_families()) {
      if (family.sources == nullptr) continue;
      for (const Tactic& tactic : family.list(layer.query(), *device)) {
        if (!tactic.support.ok) continue;
        const bool fp8 = GridCase::stores_small_floats(tactic);
        const bool first = ++(fp8 ? in_fp8 : in_floats) == 1;
        if (!first || device->libraries->nvrtc == nullptr) continue;
        for (const KernelSource& kernel : family.sources(layer.query(), tactic, *device))
          EXPECT_NO_THROW(compile_source(*device, kernel.entry, kernel.source)) << tactic.name;
      }
      for (const Tactic& tactic : family.list(pool.query(), *device)) {
        if (!GridCase::stores_small_floats(tactic)) continue;
        EXPECT_EQ(tactic.support.ok, device->properties.multiplies_fp8()) << tactic.name;
        refused +=
            tactic.support.reason.starts_with("FP8 is multiplied on GPUs from compute capability 8.9 on");
      }
    }
    EXPECT_EQ(in_fp8 > 0, device->properties.multiplies_fp8());
    EXPECT_EQ(refused > 0, !device->properties.multiplies_fp8());
    EXPECT_GT(in_floats, 0);
  }
}

}  // namespace
}  // namespace lathe::cuda
