// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"
#include "backend/cpu/device/machine.h"

namespace lathe::cpu {
TacticFamily depthwise_block_tactics();
namespace {

struct Block {
  int64_t in = 16, channels = 96, out = 24;  // in or out of 0: without that part
  int64_t height = 9, width = 11, kernel = 3, stride = 1, dilation = 1, batch = 1;
  bool residual = false;
  const char* activation = "Clip[0,6](0)";
  double expand_weight = 0.5, depthwise_weight = 0.5;  // the largest
};

LayerCase depthwise_block_case(const Block& b) {
  const int64_t pad = b.kernel / 2 * b.dilation;
  const auto activation = PointwiseProgram::parse(b.activation, 1);
  LayerCase layer{
      .op = DepthwiseBlock{.kernel = {b.kernel, b.kernel},
                           .strides = {b.stride, b.stride},
                           .dilations = {b.dilation, b.dilation},
                           .pads_begin = {pad, pad},
                           .pads_end = {pad, pad},
                           .expand_epilogue = activation,
                           .depthwise_epilogue = b.out > 0 ? activation : PointwiseProgram{}},
      .allowed_types = {DType::BFloat16},
      .tolerance = 4e-6,
      // BF16 results of the expansion and the window are rounded again where the oracle keeps FP32, and the
      // other way round.
      .rounding = 4};
  const CheckedInput absent{.absent = true};
  const auto weights = [&](Extents extents, double largest = 0.5) {
    return CheckedInput{.extents = std::move(extents), .constant = true, .low = -largest, .high = largest};
  };
  layer.inputs.push_back({.extents = {b.batch, b.in > 0 ? b.in : b.channels, b.height, b.width}});
  layer.inputs.push_back(b.in > 0 ? weights({b.channels, b.in, 1, 1}, b.expand_weight) : absent);
  layer.inputs.push_back(b.in > 0 ? weights({b.channels}) : absent);
  layer.inputs.push_back(weights({b.channels, 1, b.kernel, b.kernel}, b.depthwise_weight));
  layer.inputs.push_back(weights({b.channels}));
  layer.inputs.push_back(b.out > 0 ? weights({b.out, b.channels, 1, 1}) : absent);
  layer.inputs.push_back(b.out > 0 ? weights({b.out}) : absent);
  if (b.out == 0) layer.epilogue = activation;
  if (b.residual) {
    layer.epilogue = PointwiseProgram::parse("Add(0,1)", 2);
    layer.operands = {{.extents = {b.batch, b.out, b.height, b.width}}};
  }
  return layer;
}

// FP32 and, where there is such arithmetic, BF16, each by rows and by channels.
void expect_right_block(const Block& block, int at_least = 2) {
  const Machine machine = make_machine(read_cpu_info(), std::nullopt, 1);
  const int runs = check_layer(depthwise_block_tactics(), depthwise_block_case(block));
  if (machine.has(CpuFeature::Avx512)) {
    EXPECT_GE(runs, at_least);
  }
}

TEST(DepthwiseBlockTactics, WindowsAndStrides) {
  for (const int64_t kernel : {1, 3, 5})
    for (const int64_t stride : {1, 2, 3}) {
      SCOPED_TRACE(std::to_string(kernel) + " " + std::to_string(stride));
      expect_right_block({.kernel = kernel, .stride = stride});
    }
  expect_right_block({.height = 12, .width = 13, .dilation = 2});
  expect_right_block({.height = 2, .width = 3, .kernel = 5});
}

TEST(DepthwiseBlockTactics, Channels) {
  for (const int64_t channels : {8, 16, 40, 144, 100})
    for (const int64_t out : {7, 16, 72}) {
      SCOPED_TRACE(std::to_string(channels) + " " + std::to_string(out));
      expect_right_block({.in = 24, .channels = channels, .out = out});
      expect_right_block({.in = 0, .channels = channels, .out = out});
    }
  for (const int64_t channels : {8, 40, 144}) expect_right_block({.in = 20, .channels = channels, .out = 0});
}

TEST(DepthwiseBlockTactics, StripsAndBatches) {
  // Many rows of many channels do not fit L2 at once, so the ring turns.
  expect_right_block({.in = 24, .channels = 288, .out = 24, .height = 40, .width = 56, .residual = true});
  expect_right_block(
      {.in = 24, .channels = 288, .out = 24, .height = 41, .width = 57, .kernel = 5, .stride = 2});
  expect_right_block({.in = 24, .channels = 256, .out = 24, .batch = 3, .residual = true});
  expect_right_block(
      {.in = 16, .channels = 512, .out = 0, .height = 33, .width = 40, .stride = 2, .batch = 2});
}

TEST(DepthwiseBlockTactics, Activations) {
  for (const char* activation :
       {"Silu[1](0)", "HardSwish(0)", "Relu(0)", "Clip[0,6](0) RoundTo[9.5e-7](1)"}) {
    SCOPED_TRACE(activation);
    expect_right_block({.activation = activation});
    expect_right_block({.in = 24, .channels = 72, .out = 0, .activation = activation});
  }
  LayerCase layer = depthwise_block_case({.out = 96, .residual = true});
  layer.epilogue = PointwiseProgram::parse("Relu(0) Add(2,1)", 2);
  check_layer(depthwise_block_tactics(), layer);
  layer.dynamic_batch = true;
  check_layer(depthwise_block_tactics(), layer);
}

// What does not fit FP16, or only when it is scaled. With weights of the expansion from 250 to 800 some
// strips fit and others do not.
TEST(DepthwiseBlockTactics, RangesOfFp16) {
  for (const char* activation : {"Silu[1](0)", "Relu(0)", "Clip[-9e4,9e4](0)"}) {
    for (const double weight : {250.0, 400.0, 500.0, 600.0, 800.0, 2e4}) {
      SCOPED_TRACE(activation + std::to_string(weight));
      const Block block{.in = 24,
                        .channels = 96,
                        .height = 40,
                        .width = 24,
                        .activation = activation,
                        .expand_weight = weight};
      expect_right_block(block);
      Block unprojected = block;
      unprojected.out = 0;
      expect_right_block(unprojected);
    }
    for (const double weight : {1e-7, 1e-3, 20.0, 1e5}) {
      SCOPED_TRACE(activation + std::to_string(weight));
      expect_right_block({.activation = activation, .depthwise_weight = weight});
    }
  }
}

TEST(DepthwiseBlockTactics, SaysWhyNot) {
  const auto first_reason = [](const LayerCase& layer) {
    const auto reasons = refusals(depthwise_block_tactics(), layer);
    return reasons.empty() ? std::string() : reasons[0];
  };
  const auto expect_reason = [&](const LayerCase& layer, const std::string& text) {
    const std::string reason = first_reason(layer);
    // A machine without AVX-512 refuses all.
    EXPECT_TRUE(reason.find(text) != std::string::npos || reason.find("needs AVX-512") != std::string::npos)
        << reason;
  };
  LayerCase layer = depthwise_block_case({});
  layer.inputs[3].constant = false;
  expect_reason(layer, "weights are not constant");
  expect_reason(depthwise_block_case({.in = 0, .out = 0}), "no pointwise part");
  expect_reason(depthwise_block_case({.activation = "Silu[1](0) Relu(1)"}), "more than an activation");
  layer = depthwise_block_case({});
  layer.epilogue = PointwiseProgram::parse("Exp(0)", 1);
  expect_reason(layer, "more than a sum and an activation");
  layer = depthwise_block_case({.out = 0});
  layer.epilogue = PointwiseProgram::parse("Add(0,1)", 2);
  layer.operands = {{.extents = {1, 96, 9, 11}}};
  expect_reason(layer, "cannot add an operand");
}

TEST(DepthwiseBlockTactics, SaysWhyNotInFp16) {
  if (!has_amx_fp16()) GTEST_SKIP() << "no AMX with AVX512-FP16 here";
  const auto expect_reason = [](const Block& block, const std::string& text) {
    const auto reasons = refusals(depthwise_block_tactics(), depthwise_block_case(block));
    EXPECT_TRUE(std::any_of(reasons.begin(), reasons.end(), [&](const std::string& reason) {
      return reason.find("amx_fp16") != std::string::npos && reason.find(text) != std::string::npos;
    })) << text;
  };
  expect_reason({.in = 0}, "begins after an expansion");
  expect_reason({.activation = "GeluErf(0)"}, "GELU");
  expect_reason({.activation = "Silu[0.01](0)"}, "SiLU");
  expect_reason({.activation = "Clip[-inf,6](0)"}, "no lower bound");
}

}  // namespace
}  // namespace lathe::cpu
