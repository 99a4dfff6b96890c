// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "backend/cpu/check/tactic_check.h"
#include "backend/cpu/device/machine.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe::cpu {
namespace {

Tensor random_weights(const Extents& extents, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
  std::vector<float> values(static_cast<size_t>(element_count(extents)));
  for (float& v : values) v = uniform(random);
  return Tensor::from<float>(extents, values);
}

struct ConvTestProblem {
  int64_t channels = 16, out_channels = 16;
  Extents spatial = {9, 9};
  Conv conv;
  bool bias = true;
  int64_t batch = 1;
};

struct Built {
  Graph graph;
  NodeId node = kNoNode;
  SymbolRanges ranges;
};

// The program's inputs 1.. are `operands` shapes, as inputs of the graph (not constant) or constants.
struct ConvOperand {
  Shape shape;
  bool constant = false;
};

std::unique_ptr<Built> build(ConvTestProblem problem, const PointwiseProgram& epilogue = {},
                             const std::vector<ConvOperand>& operands = {}, bool bf16 = false,
                             bool dynamic = false) {
  auto built = std::make_unique<Built>();
  GraphEditor editor(built->graph);
  Shape shape = {dynamic ? Dim::symbol("n") : Dim(problem.batch), problem.channels};
  for (const int64_t e : problem.spatial) shape.push_back(e);
  if (dynamic) built->ranges = {{"n", {1, 3, 5}}};
  Extents weights = {problem.out_channels, problem.channels / problem.conv.groups};
  if (problem.conv.kernel.empty()) problem.conv.kernel.assign(problem.spatial.size(), 3);
  for (const int64_t k : problem.conv.kernel) weights.push_back(k);
  std::vector<ValueId> inputs = {editor.add_input("x", DType::Float32, shape),
                                 editor.add_constant("w", random_weights(weights, 1))};
  if (problem.bias) inputs.push_back(editor.add_constant("b", random_weights({problem.out_channels}, 2)));
  const ValueId y = append_node(editor, "conv", problem.conv, inputs, {})[0];
  built->node = built->graph.value(y).producer;
  if (!epilogue.empty()) {
    std::vector<ValueId> ids;
    uint32_t seed = 3;
    for (const ConvOperand& operand : operands)
      ids.push_back(operand.constant
                        ? editor.add_constant("c", random_weights(to_extents(operand.shape), seed++))
                        : editor.add_input("o", DType::Float32, operand.shape));
    editor.set_epilogue(built->node, epilogue, ids);
  }
  if (bf16) editor.set_allowed_types(built->node, {DType::BFloat16});
  editor.mark_output(y);
  return built;
}

TacticCheckResult expect_right_conv(const Built& built, double bf16_tolerance = 1.5e-2) {
  return cpu::expect_right(
      built.graph, built.node,
      {.runner = "OnednnConvolution", .ranges = built.ranges, .bf16_tolerance = bf16_tolerance});
}

TEST(OnednnConv, EverySplitAndFormat) {
  const auto result = expect_right_conv(*build({.channels = 64,
                                                .out_channels = 64,
                                                .spatial = {28, 28},
                                                .conv = {.pads_begin = {1, 1}, .pads_end = {1, 1}}}));
  EXPECT_TRUE(ran(result, "_oc2"));
  EXPECT_TRUE(ran(result, "_rows"));
  EXPECT_TRUE(ran(result, "channels_last"));
  EXPECT_TRUE(ran(result, "blocked"));
}

TEST(OnednnConv, WinogradWhereOnednnHasIt) {
  const auto result = expect_right_conv(*build({.channels = 128,
                                                .out_channels = 128,
                                                .spatial = {28, 28},
                                                .conv = {.pads_begin = {1, 1}, .pads_end = {1, 1}}}));
  if (read_cpu_info().features.has(CpuFeature::Avx512)) {
    EXPECT_TRUE(ran(result, "wino"));
  }
}

TEST(OnednnConv, OddChannelsStridesDilationsAndPads) {
  expect_right_conv(
      *build({.channels = 3,
              .out_channels = 20,
              .spatial = {23, 19},
              .conv = {.kernel = {7, 7}, .strides = {2, 2}, .pads_begin = {3, 3}, .pads_end = {3, 3}}}));
  expect_right_conv(*build({.channels = 13,
                            .out_channels = 21,
                            .spatial = {11, 12},
                            .conv = {.kernel = {3, 2},
                                     .strides = {1, 2},
                                     .dilations = {2, 1},
                                     .pads_begin = {2, 0},
                                     .pads_end = {0, 1}}}));
  expect_right_conv(*build({.channels = 24,
                            .out_channels = 40,
                            .spatial = {10, 10},
                            .conv = {.kernel = {3, 3}, .strides = {2, 2}, .auto_pad = AutoPad::SameUpper},
                            .bias = false}));
  expect_right_conv(*build({.channels = 24,
                            .out_channels = 40,
                            .spatial = {10, 10},
                            .conv = {.kernel = {4, 4}, .strides = {3, 3}, .auto_pad = AutoPad::SameLower}}));
  expect_right_conv(
      *build({.channels = 20, .out_channels = 24, .spatial = {14, 14}, .conv = {.kernel = {1, 1}}}));
  // stride beyond the kernel: rows that nobody reads
  expect_right_conv(*build({.channels = 32,
                            .out_channels = 32,
                            .spatial = {9, 9},
                            .conv = {.kernel = {1, 1}, .strides = {2, 2}}}));
}

TEST(OnednnConv, OneAndThreeSpatialDims) {
  expect_right_conv(*build({.channels = 24,
                            .out_channels = 32,
                            .spatial = {40},
                            .conv = {.kernel = {5}, .strides = {2}, .pads_begin = {2}, .pads_end = {2}}}));
  expect_right_conv(*build({.channels = 16,
                            .out_channels = 32,
                            .spatial = {6, 7, 5},
                            .conv = {.kernel = {3, 3, 3}, .pads_begin = {1, 1, 1}, .pads_end = {1, 1, 1}}}));
}

TEST(OnednnConv, Groups) {
  const Conv padded{.kernel = {3, 3}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  for (const auto& [channels, groups] :
       std::vector<std::pair<int64_t, int64_t>>{{48, 48}, {50, 50}, {64, 2}, {64, 4}, {96, 3}}) {
    Conv conv = padded;
    conv.groups = groups;
    expect_right_conv(
        *build({.channels = channels, .out_channels = channels, .spatial = {12, 10}, .conv = conv}));
    conv.strides = {2, 2};
    expect_right_conv(
        *build({.channels = channels, .out_channels = channels, .spatial = {12, 10}, .conv = conv}));
  }
}

// Groups of fewer channels than a vector has, joined to whole ones.
TEST(OnednnConv, JoinedGroups) {
  for (const auto& [channels, out, groups] :
       std::vector<std::array<int64_t, 3>>{{64, 64, 16}, {64, 128, 16}, {48, 48, 8}, {96, 96, 8}}) {
    const Conv conv{.kernel = {3, 3}, .pads_begin = {1, 1}, .pads_end = {1, 1}, .groups = groups};
    const auto result = expect_right_conv(
        *build({.channels = channels, .out_channels = out, .spatial = {12, 10}, .conv = conv, .batch = 2}));
    EXPECT_TRUE(ran(result, "groups")) << channels << " in " << groups;
  }
}

TEST(OnednnConv, BatchAndDynamicBatch) {
  const Conv padded{.pads_begin = {1, 1}, .pads_end = {1, 1}};
  const auto result = expect_right_conv(
      *build({.channels = 32, .out_channels = 40, .spatial = {14, 13}, .conv = padded, .batch = 3}));
  EXPECT_TRUE(ran(result, "_batch"));
  expect_right_conv(
      *build({.channels = 32, .out_channels = 40, .spatial = {14, 13}, .conv = padded}, {}, {}, false, true));
}

// Made for eight rows. Of one row, the second window sees padding alone, which no optimised kernel takes.
TEST(OnednnConv, WindowsInThePaddingOfAShapeOfTheRun) {
  Graph graph;
  GraphEditor editor(graph);
  const Conv conv{.kernel = {3, 3}, .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {3, 1}};
  const ValueId y = append_node(editor, "conv", conv,
                                {editor.add_input("x", DType::Float32, {1, 16, Dim::symbol("h"), 8}),
                                 editor.add_constant("w", random_weights({32, 16, 3, 3}, 1))},
                                {})[0];
  editor.set_epilogue(graph.value(y).producer, PointwiseProgram::parse("Relu(0)", 1), {});
  editor.mark_output(y);
  cpu::expect_right(graph, graph.value(y).producer,
                    {.runner = "OnednnConvolution", .ranges = {{"h", {1, 8, 9}}}});
}

TEST(OnednnConv, FusesEpilogues) {
  const ConvTestProblem problem{.channels = 32,
                                .out_channels = 48,
                                .spatial = {14, 14},
                                .conv = {.pads_begin = {1, 1}, .pads_end = {1, 1}}};
  const Shape full = {1, 48, 14, 14}, channel = {1, 48, 1, 1};
  for (const char* text : {"Relu(0)", "Clip[0,6](0)", "Silu[1](0)", "GeluErf(0)", "HardSwish(0)",
                           "Sigmoid(0)", "LeakyRelu[0.1](0) Square(1)", "Sigmoid(0) Mul(0,1)"})
    expect_right_conv(*build(problem, PointwiseProgram::parse(text, 1)));
  expect_right_conv(*build(problem, PointwiseProgram::parse("Add(0,1) Relu(2)", 2), {{full}}));
  expect_right_conv(*build(problem, PointwiseProgram::parse("Add(1,0) Relu(2)", 2), {{full}}));
  expect_right_conv(*build(problem, PointwiseProgram::parse("Sub(1,0) Relu(2)", 2), {{full}}));
  expect_right_conv(*build(problem, PointwiseProgram::parse("Mul(0,1) Tanh(2)", 2), {{channel, true}}));
  expect_right_conv(*build(problem, PointwiseProgram::parse("Mul(0,1)", 2), {{channel, false}}));
  expect_right_conv(*build(problem, PointwiseProgram::parse("Add(0,1)", 2), {{full, true}}));
  expect_right_conv(
      *build(problem, PointwiseProgram::parse("Mul(0,1) Add(3,2) Relu(4)", 3), {{channel, true}, {full}}));
}

// For a dilated row of 512 pixels and a residual, oneDNN 2.6 fuses the Add into its unfolded product alone.
TEST(OnednnConv, ResidualsKeepTheKernelOfTheBareConvolution) {
  const Conv dilated{.kernel = {3}, .dilations = {8}, .pads_begin = {8}, .pads_end = {8}};
  const ConvTestProblem problem{.channels = 64, .out_channels = 128, .spatial = {512}, .conv = dilated};
  const auto bare = expect_right_conv(*build(problem));
  const auto residual =
      expect_right_conv(*build(problem, PointwiseProgram::parse("Add(0,1)", 2), {{Shape{1, 128, 512}}}));
  EXPECT_EQ(ran(residual, "_gemm_"), ran(bare, "_gemm_"));
  EXPECT_EQ(residual.ran.size(), bare.ran.size());
}

// Steps of a fused epilogue that lie half a step apart would differ from the oracle's by whole ones; sums of
// convolutions never lie there exactly, and rounding to 2^-20 of them shows whether the arithmetic is right.
TEST(OnednnConv, RoundsToAGridInItsPostOps) {
  const ConvTestProblem problem{.channels = 16,
                                .out_channels = 24,
                                .spatial = {10, 10},
                                .conv = {.pads_begin = {1, 1}, .pads_end = {1, 1}}};
  expect_right_conv(*build(problem, PointwiseProgram::parse("Clip[-2,2](0) RoundTo[9.5e-7](1)", 1)));
  expect_right_conv(*build(problem, PointwiseProgram::parse("RoundTo[9.5e-7](0) Add(2,1) Relu(3)", 2),
                           {{Shape{1, 24, 10, 10}}}));
  expect_right_conv(
      *build(problem,
             PointwiseProgram::parse(
                 "Clip[-1,2](0) RoundTo[9.5e-7](2) Add(3,1) Clip[0,1.5](4) RoundTo[9.6e-7](5)", 2),
             {{Shape{1, 24, 10, 10}}}));
}

// oneDNN itself would compute the second of each pair with the numbers of the first.
TEST(OnednnConv, FunctionsThatComeTwice) {
  const ConvTestProblem problem{
      .channels = 16, .out_channels = 16, .spatial = {8, 8}, .conv = {.kernel = {1, 1}}};
  for (const char* text :
       {"Clip[-2,1](0) Clip[0,3](1)", "Clip[-2,1](0) Linear[0.5,1](1) Clip[0,0.75](2) Linear[2,3](3)",
        "Elu[0.5](0) Elu[0.25](1)", "Silu[1](0) Silu[2](1)", "LeakyRelu[0.1](0) Relu(1)", "Relu(0) Relu(1)"})
    expect_right_conv(*build(problem, PointwiseProgram::parse(text, 1)));
}

// Whatever says that it keeps NaN does; what does not say so is a Relu, a Clip or another function of
// oneDNN's.
TEST(OnednnConv, SaysWhatKeepsNan) {
  const ConvTestProblem problem{
      .channels = 16, .out_channels = 16, .spatial = {8, 8}, .conv = {.kernel = {1, 1}}};
  int keeping = 0, losing = 0;
  for (const char* text : {"", "Relu(0)", "Clip[0,6](0)", "Silu[1](0)", "Sigmoid(0)", "Abs(0)",
                           "Linear[2,1](0)", "HardSwish(0)", "Clip[-2,2](0) RoundTo[0.5](1)"}) {
    const auto built = build(problem, *text ? PointwiseProgram::parse(text, 1) : PointwiseProgram{});
    const auto result =
        check_tactics(built->graph, built->node, {.runner = "OnednnConvolution", .with_nan = true});
    for (const std::string& failure : result.failures) ADD_FAILURE() << text << ": " << failure;
    keeping += static_cast<int>(result.ran.size());
    losing += static_cast<int>(result.left_out.size());
  }
  EXPECT_GE(keeping, 3);
  EXPECT_GE(losing, 3);
}

TEST(OnednnConv, EpiloguesOnOddChannelsKeepThePaddingZero) {
  const ConvTestProblem problem{.channels = 20,
                                .out_channels = 35,
                                .spatial = {9, 8},
                                .conv = {.pads_begin = {1, 1}, .pads_end = {1, 1}},
                                .batch = 2};
  for (const char* text : {"Sigmoid(0)", "Exp(0)", "HardSwish(0)", "Sigmoid(0) Mul(0,1) Exp(2)"})
    expect_right_conv(*build(problem, PointwiseProgram::parse(text, 1)));
  expect_right_conv(
      *build(problem, PointwiseProgram::parse("Add(0,1) Sigmoid(2)", 2), {{Shape{2, 35, 9, 8}}}));
}

TEST(OnednnConv, Bf16) {
  const ConvTestProblem problem{.channels = 32,
                                .out_channels = 48,
                                .spatial = {14, 14},
                                .conv = {.pads_begin = {1, 1}, .pads_end = {1, 1}}};
  const auto result = expect_right_conv(*build(problem, PointwiseProgram::parse("Relu(0)", 1), {}, true));
  if (read_cpu_info().features.has(CpuFeature::Bf16)) {
    EXPECT_TRUE(ran(result, "bfloat16"));
  }
  expect_right_conv(
      *build(problem, PointwiseProgram::parse("Add(0,1) Relu(2)", 2), {{Shape{1, 48, 14, 14}}}, true));
  expect_right_conv(
      *build({.channels = 3,
              .out_channels = 20,
              .spatial = {23, 19},
              .conv = {.kernel = {7, 7}, .strides = {2, 2}, .pads_begin = {3, 3}, .pads_end = {3, 3}}},
             {}, {}, true));
  Conv depthwise{.kernel = {3, 3}, .pads_begin = {1, 1}, .pads_end = {1, 1}, .groups = 48};
  expect_right_conv(*build({.channels = 48, .out_channels = 48, .spatial = {12, 10}, .conv = depthwise},
                           PointwiseProgram::parse("HardSwish(0)", 1), {}, true));
}

TEST(OnednnConv, SaysWhyItRefuses) {
  auto built = std::make_unique<Built>();
  GraphEditor editor(built->graph);
  const ValueId x = editor.add_input("x", DType::Float32, {1, 8, 5, 5});
  const ValueId w = editor.add_input("w", DType::Float32, {8, 8, 3, 3});
  const ValueId y = append_node(editor, "conv", Conv{.kernel = {3, 3}}, {x, w}, {})[0];
  const auto result =
      check_tactics(built->graph, built->graph.value(y).producer, {.runner = "OnednnConvolution"});
  ASSERT_EQ(result.refused.size(), 1u);
  EXPECT_NE(result.refused[0].find("weights are not constant"), std::string::npos);
}

}  // namespace
}  // namespace lathe::cpu
