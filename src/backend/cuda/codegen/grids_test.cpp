// SPDX-License-Identifier: Apache-2.0
//
// Generated kernels on bytes of a grid: products and convolutions of integers, and every family that reads or
// writes them.
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

std::string weight_grid(int64_t channels, int64_t axis, const std::string& dtype = "int8",
                        const std::string& zero = "0") {
  return " quantized " + dtype + " scale " + repeated_list(channels, "0.015625") + " zero " +
         repeated_list(channels, zero) + " axis " + std::to_string(axis);
}

constexpr const char* kRounded = " epilogue {Clip[-8,7.9375](0) RoundTo[0.0625](1)}";
constexpr const char* kOnGrid = " quantized uint8 scale [0.0625] zero [128]";

struct ByteGridLayer {
  std::string x = "1, 32, 9, 8", w = "24, 32, 3, 3", y = "1, 24, 9, 8", op = "Conv";
  int64_t channels = 24, axis = 0;
  std::string fields = "kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1]";
  std::string zero = "0", weight_type = "int8", weight_zero = "0";
  std::string epilogue = kRounded, operands, operand_values;
  bool bias = true;
  std::string weight_grid_text = "";

  std::string text() const {
    return "graph \"g\" {\n input %x: float32[" + x + "] quantized uint8 scale [0.03125] zero [" + zero +
           "]\n" + operand_values + " const %w: float32[" + w + "]" +
           (weight_grid_text.empty() ? weight_grid(channels, axis, weight_type, weight_zero)
                                     : weight_grid_text) +
           " = random 3\n" +
           (bias ? " const %b: float32[" + std::to_string(channels) + "] = random 5\n" : "") +
           " %y: float32[" + y + "]" + kOnGrid + " = " + op + " \"l\" (%x, %w" + (bias ? ", %b" : "") +
           operands + ") {" + fields + "}" + epilogue + "\n output %y\n}\n";
  }
};

ByteGridLayer byte_grid_product(const std::string& x, const std::string& w, const std::string& y,
                                int64_t columns) {
  return {.x = x,
          .w = w,
          .y = y,
          .op = "MatMul",
          .channels = columns,
          .axis = 1,
          .fields = "",
          .zero = "77",
          .bias = false};
}

ByteGridLayer transposed_byte_grid_product() {
  ByteGridLayer layer = byte_grid_product("70, 208", "200, 208", "70, 200", 200);
  layer.fields = "transpose_b=true";
  layer.axis = 0;
  return layer;
}

// Its zero point is no byte of 0, with which images are padded.
ByteGridLayer byte_grid_window_without_pads() {
  ByteGridLayer layer{.x = "1, 144, 7, 7",
                      .w = "32, 144, 3, 3",
                      .y = "1, 32, 5, 5",
                      .channels = 32,
                      .fields = "kernel=[3, 3]"};
  layer.zero = "131";
  return layer;
}

// And a number for each column, and Relu.
ByteGridLayer with_residual(ByteGridLayer layer) {
  layer.operand_values = " input %r: float32[" + layer.y +
                         "] quantized uint8 scale [0.125] zero [3]\n const %c: float32[" +
                         std::to_string(layer.channels) + "] = random 9\n";
  layer.operands = ", %r, %c";
  layer.epilogue = " epilogue 3 {Add(0,2) Add(3,1) Relu(4) Clip[-8,7.9375](5) RoundTo[0.0625](6)}";
  return layer;
}

TEST(CudaGrids, Products) {
  const ByteGridLayer residual = with_residual(byte_grid_product("2, 35, 80", "80, 40", "2, 35, 40", 40));
  const ByteGridLayer transposed = transposed_byte_grid_product();
  const auto ran = check_generated_grids(
      wgmma_family(),
      {byte_grid_product("70, 208", "208, 200", "70, 200", 200).text(), residual.text(), transposed.text(),
       byte_grid_product("300, 640", "640, 48", "300, 48", 48).text()},
      2);
  EXPECT_TRUE(has(ran, "cuda_wgmma", "uint8")) << ran.size();
  EXPECT_GE(ran.size(), 4u * 6u);
}

// Each column of each matrix has a scale of its own.
TEST(CudaGrids, StacksOfMatrices) {
  ByteGridLayer stack = byte_grid_product("70, 208", "3, 208, 40", "3, 70, 40", 120);
  ByteGridLayer transposed = byte_grid_product("330, 656", "2, 64, 656", "2, 330, 64", 128);
  transposed.fields = "transpose_b=true";
  transposed.axis = 2;
  for (ByteGridLayer* layer : {&stack, &transposed}) {
    const int64_t count = layer->channels;
    std::string scales = "[";
    for (int64_t i = 0; i < count; ++i) scales += (i ? ", 0.0" : "0.0") + std::to_string(10 + i % 7);
    layer->weight_grid_text = " quantized int8 scale " + scales + "] zero " + repeated_list(count, "0") +
                              " axis " + std::to_string(layer->axis);
    layer->operand_values =
        " const %c: float32[" + std::string(layer == &stack ? "3, 1, 40" : "2, 1, 64") + "] = random 9\n";
    layer->operands = ", %c";
    layer->epilogue = " epilogue 2 {Add(0,1) Clip[-8,7.9375](2) RoundTo[0.0625](3)}";
  }
  const auto ran = check_generated_grids(wgmma_family(), {stack.text(), transposed.text()}, 2);
  EXPECT_GE(ran.size(), 2u * 6u);
}

TEST(CudaGrids, BlocksThatStayDealColumns) {
  const ByteGridLayer product = byte_grid_product("70, 208", "208, 384", "70, 384", 384);
  const auto ran =
      check_generated_grids(only<kDealing, 3>(), {product.text(), with_residual(product).text()}, 3);
  EXPECT_GE(ran.size(), 2u * 3u);
  EXPECT_TRUE(has(ran, "cuda_wgmma_stay", "-> uint8")) << ran.size();
}

TEST(CudaGrids, Convolutions) {
  ByteGridLayer strided{.x = "2, 48, 9, 9", .w = "40, 48, 3, 3", .y = "2, 40, 5, 5", .channels = 40};
  strided.fields = "kernel=[3, 3], strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]";
  const ByteGridLayer valid = byte_grid_window_without_pads();
  ByteGridLayer point{
      .x = "2, 64, 5, 5", .w = "33, 64, 1, 1", .y = "2, 33, 5, 5", .channels = 33, .fields = "kernel=[1, 1]"};
  point.zero = "9";
  // Pixels of more than 64 bytes have steps of 128.
  const ByteGridLayer wide{.x = "1, 80, 6, 5", .w = "24, 80, 3, 3", .y = "1, 24, 6, 5"};
  const auto ran = check_generated_grids(
      wgmma_conv_family(), {ByteGridLayer().text(), strided.text(), valid.text(), point.text(), wide.text()},
      2);
  EXPECT_GE(ran.size(), 4u * 6u);
  EXPECT_GE(check_generated_grids(wgmma_family(), {point.text()}, 2).size(), 6u);
}

TEST(CudaGrids, ConvolutionsThatKeepABorder) {
  const ByteGridLayer wide{.x = "1, 80, 6, 5", .w = "24, 80, 3, 3", .y = "1, 24, 6, 5"};
  const std::vector<std::string> layers = {ByteGridLayer().text(), byte_grid_window_without_pads().text(),
                                           wide.text()};
  EXPECT_GE(check_generated_grids(halo_family(), layers, 2).size(), 3u * 6u);
  const auto ran = check_generated_grids(halo_in_teams(), layers, 2);
  EXPECT_TRUE(has(ran, "cuda_wgmma_halo_keep_teams", "-> uint8")) << ran.size();
}

// Tensor cores before Hopper, and behind it, multiply bytes in tiles.
TEST(CudaGrids, TilesOfOtherGpus) {
  const ByteGridLayer transposed = transposed_byte_grid_product();
  ByteGridLayer stack = byte_grid_product("70, 208", "3, 208, 40", "3, 70, 40", 120);
  stack.weight_grid_text = weight_grid(120, 1);
  ByteGridLayer odd = byte_grid_product("37, 90", "90, 33", "37, 33", 33);
  ByteGridLayer grouped{.w = "24, 16, 3, 3"};
  grouped.fields += ", groups=2";
  const ByteGridLayer valid = byte_grid_window_without_pads();
  const std::string path = "tests/devices/sm_80_a100.json";
  const auto device = describe_device(DeviceProperties::from_json(read_file(path), path));
  const auto ran = check_generated_grids(
      gemm_family(),
      {byte_grid_product("70, 208", "208, 200", "70, 200", 200).text(), transposed.text(), stack.text(),
       odd.text(), ByteGridLayer().text(), grouped.text(), valid.text()},
      3, device);
  EXPECT_TRUE(has(ran, "cuda_gemm_mma", "uint8")) << ran.size();
  EXPECT_GE(ran.size(), 7u * 6u);
}

TEST(CudaGrids, TilesCompileForEachGpuButHopper) {
  const GridCase product(byte_grid_product("64, 128", "128, 64", "64, 64", 64).text(), {DType::Float16}),
      conv(ByteGridLayer().text(), {DType::Float16});
  for (const char* name :
       {"sm_80_a100", "sm_86_a10", "sm_89_l4", "sm_90_h100", "sm_100_b200", "sm_120_rtx5090"}) {
    SCOPED_TRACE(name);
    const std::string path = std::string("tests/devices/") + name + ".json";
    const auto device = describe_device(DeviceProperties::from_json(read_file(path), path));
    for (const GridCase* layer : {&product, &conv}) {
      int in_bytes = 0;
      for (const Tactic& tactic : gemm_family().list(layer->query(), *device)) {
        if (!tactic.support.ok || tactic.inputs[0].dtype != DType::UInt8) continue;
        if (++in_bytes > 1 || device->libraries->nvrtc == nullptr) continue;
        for (const KernelSource& kernel : gemm_family().generate(layer->query(), tactic, *device).kernels)
          EXPECT_NO_THROW(compile_source(*device, kernel.entry, kernel.source)) << tactic.name;
      }
      EXPECT_EQ(in_bytes > 0, !device->properties.is_hopper());
    }
  }
}

TEST(CudaGrids, FirstConvolutions) {
  ByteGridLayer layer{.x = "2, 3, 18, 40", .w = "24, 3, 7, 7", .y = "2, 24, 9, 20"};
  layer.fields = "kernel=[7, 7], strides=[2, 2], pads_begin=[3, 3], pads_end=[3, 3]";
  layer.zero = "114";
  ByteGridLayer odd{
      .x = "1, 3, 11, 37", .w = "20, 3, 3, 3", .y = "1, 20, 6, 19", .channels = 20, .bias = false};
  odd.fields = "kernel=[3, 3], strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]";
  const auto ran = check_generated_grids(stem_family(), {layer.text(), odd.text()}, 2);
  for (const std::string types :
       {"uint8:linear undefined:linear -> uint8", "float32:linear undefined:linear -> uint8",
        "uint8:linear undefined:linear -> float16"})
    EXPECT_TRUE(has(ran, "cuda_stem", types)) << ran.size();
}

TEST(CudaGrids, WhatIsRefusedSaysWhy) {
  const auto reason = [](const ByteGridLayer& layer, const GeneratedFamily& family) {
    for (const std::string& r : generated_grid_refusals(family, layer.text()))
      if (r.find(" uint8") != std::string::npos) return r;
    return std::string();
  };
  ByteGridLayer layer;
  layer.zero = "3";
  EXPECT_NE(reason(layer, wgmma_conv_family()).find("the convolution pads"), std::string::npos);
  layer = {};
  layer.weight_type = "uint8";
  layer.weight_zero = "100";
  EXPECT_NE(reason(layer, wgmma_conv_family()).find("do not fit signed bytes"), std::string::npos);
  layer = byte_grid_product("8, 24", "24, 8", "8, 8", 8);
  EXPECT_NE(reason(layer, wgmma_family()).find("multiples of 16 bytes"), std::string::npos);
}

// One operand on a grid, and a result on another.
std::string one_on_bytes(const std::string& x, const std::string& y, const std::string& op,
                         const std::string& fields, const std::string& epilogue = kRounded,
                         const std::string& grid = kOnGrid) {
  return "graph \"g\" {\n input %x: float32[" + x +
         "] quantized uint8 scale [0.03125] zero [77]\n %y: float32[" + y + "]" + grid + " = " + op +
         " \"l\" (%x) {" + fields + "}" + epilogue + "\n output %y\n}\n";
}

TEST(CudaGrids, Pointwise) {
  const auto ran = check_generated_grids(
      pointwise_family(),
      {"graph \"g\" {\n input %a: float32[2, 16, 5, 3] quantized uint8 scale [0.03125] zero [77]\n"
       " input %b: float32[2, 16, 5, 3] quantized uint8 scale [0.0625] zero [0]\n input %c: float32[16, 1, "
       "1]\n"
       " %y: float32[2, 16, 5, 3] quantized uint8 scale [0.0625] zero [128] = PointwiseChain \"l\" (%a, %b, "
       "%c) "
       "{program=3 {Mul(0,2) Add(3,1) Clip[-8,7.9375](4) RoundTo[0.0625](5)}}\n output %y\n}\n"});
  for (const char* types : {"uint8", "-> float16", "-> uint8"})
    EXPECT_TRUE(has(ran, "cuda_pointwise", types));
}

TEST(CudaGrids, WindowsAndSums) {
  const std::string pool = "kind=Max, kernel=[3, 3], strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]";
  EXPECT_GE(check_generated_grids(pool_family(), {one_on_bytes("2, 16, 9, 9", "2, 16, 5, 5", "Pool", pool),
                                                  one_on_bytes("1, 3, 9, 9", "1, 3, 5, 5", "Pool", pool)})
                .size(),
            8u);
  EXPECT_GE(check_generated_grids(reduce_family(), {one_on_bytes("2, 32, 7, 7", "2, 32, 1, 1", "Reduce",
                                                                 "kind=Mean, axes=[2, 3], keepdims=true")})
                .size(),
            8u);
  ByteGridLayer depthwise{.x = "1, 32, 9, 8", .w = "32, 1, 3, 3", .y = "1, 32, 9, 8", .channels = 32};
  depthwise.fields = "kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1], groups=32";
  depthwise.zero = "77";
  EXPECT_GE(check_generated_grids(depthwise_family(), {depthwise.text()}).size(), 8u);
}

TEST(CudaGrids, RowsAndAttention) {
  EXPECT_GE(
      check_generated_grids(softmax_family(), {one_on_bytes("6, 40", "6, 40", "Softmax", "axis=1")}).size(),
      1u);
  EXPECT_GE(
      check_generated_grids(layer_norm_family(),
                            {"graph \"g\" {\n input %x: float32[6, 72]\n const %s: float32[72] = random 3\n"
                             " const %b: float32[72] = random 4\n %y: float32[6, 72]" +
                             std::string(kOnGrid) + " = LayerNorm \"l\" (%x, %s, %b) {axis=1}" + kRounded +
                             "\n output %y\n}\n"})
          .size(),
      1u);
}

TEST(CudaGrids, Moved) {
  const auto ran = check_generated_grids(
      copy_family(), {one_on_bytes("2, 32, 24", "2, 24, 32", "Transpose", "perm=[0, 2, 1]", "",
                                   " quantized uint8 scale [0.03125] zero [77]")});
  EXPECT_TRUE(has(ran, "cuda_copy", "uint8"));
  const char* const types[] = {"float32", "float16", "uint8"};
  for (const std::string from : types)
    for (const std::string to : types) {
      if (from == to || (from != "uint8" && to != "uint8")) continue;
      const std::string grid = " quantized uint8 scale [0.0625] zero [77]";
      EXPECT_EQ(check_generated_grids(copy_family(), {"graph \"g\" {\n input %x: " + from + "[2, 40, 3, 7]" +
                                                      grid + "\n %y: " + to + "[2, 40, 3, 7]:channels_last" +
                                                      grid + " = Reformat \"r\" (%x) {}\n output %y\n}\n"})
                    .size(),
                1u)
          << from << " to " << to;
    }
}

}  // namespace
}  // namespace lathe::cuda
