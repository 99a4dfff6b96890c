// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"
#include "backend/cpu/device/machine.h"

namespace lathe::cpu {
TacticFamily feed_forward_tactics();
namespace {

struct FeedForwardSizes {
  int64_t m = 20, k = 64, hidden = 96, n = 48;
  bool transposed = false;
  const char* between = "Add(0,1) GeluErf(2)";
};

LayerCase feed_forward_case(const FeedForwardSizes& s) {
  const auto weights = [&](int64_t rows, int64_t columns, double size) {
    Extents extents = s.transposed ? Extents{columns, rows} : Extents{rows, columns};
    return CheckedInput{.extents = std::move(extents), .constant = true, .low = -size, .high = size};
  };
  LayerCase layer{
      .op = FeedForward{.transpose_first = s.transposed,
                        .transpose_second = s.transposed,
                        .hidden = PointwiseProgram::parse(s.between, 2)},
      .inputs = {{.extents = {1, s.m, s.k}}, weights(s.k, s.hidden, 0.5), weights(s.hidden, s.n, 0.5)},
      .allowed_types = {DType::BFloat16},
      .tolerance = 4e-6,
      // Hidden rows are rounded, too, whatever the result is stored as.
      .rounding = 8};
  layer.inputs.push_back({.extents = {s.hidden}, .constant = true});
  return layer;
}

// At the least BF16 results, by panels, where the machine has AMX or can stand in for it.
void expect_right_feed_forward(const LayerCase& layer) {
  const Machine machine = make_machine(read_cpu_info(), std::nullopt, 1);
  const int runs = check_layer(feed_forward_tactics(), layer);
  if (machine.has(CpuFeature::Bf16)) {
    EXPECT_GE(runs, 1);
  }
}

TEST(FeedForwardTactics, FeedForwardSizes) {
  for (const int64_t m : {1, 16, 33, 197})
    for (const int64_t n : {7, 16, 48, 72}) {
      SCOPED_TRACE(std::to_string(m) + " " + std::to_string(n));
      expect_right_feed_forward(feed_forward_case({.m = m, .n = n}));
      expect_right_feed_forward(feed_forward_case({.m = m, .k = 48, .n = n, .transposed = true}));
    }
}

TEST(FeedForwardTactics, DepthInChunks) {
  expect_right_feed_forward(feed_forward_case({.m = 40, .k = 512, .hidden = 640, .n = 40}));
  expect_right_feed_forward(feed_forward_case({.m = 40, .k = 80, .hidden = 1024, .n = 40}));
}

// Hidden rows of 5 MB go through L2 in blocks.
TEST(FeedForwardTactics, Blocks) {
  LayerCase layer = feed_forward_case({.m = 900, .k = 64, .hidden = 3072, .n = 32});
  expect_right_feed_forward(layer);
}

TEST(FeedForwardTactics, Functions) {
  for (const char* between :
       {"Add(0,1)", "Add(0,1) Relu(2)", "Add(0,1) Silu[1](2)", "Add(0,1) GeluTanh(2)"}) {
    SCOPED_TRACE(between);
    expect_right_feed_forward(feed_forward_case({.between = between}));
  }
  for (const char* epilogue : {"Add(0,1)", "Add(0,1) Add(3,2)", "Add(0,2) Relu(3)"}) {
    SCOPED_TRACE(epilogue);
    LayerCase layer = feed_forward_case({});
    layer.epilogue = PointwiseProgram::parse(epilogue, 3);
    layer.operands = {{.extents = {48}, .constant = true}, {.extents = {1, 20, 48}}};
    expect_right_feed_forward(layer);
  }
}

TEST(FeedForwardTactics, SaysWhyNot) {
  const auto expect_reason = [](const LayerCase& layer, const std::string& text) {
    const auto reasons = refusals(feed_forward_tactics(), layer);
    ASSERT_FALSE(reasons.empty());
    const bool no_amx = reasons[0].find("needs AMX") != std::string::npos;
    EXPECT_TRUE(no_amx || reasons[0].find(text) != std::string::npos) << reasons[0];
  };
  expect_reason(feed_forward_case({.k = 37}), "k = 37 is no multiple");
  expect_reason(feed_forward_case({.hidden = 40}), "40 hidden columns");
  expect_reason(feed_forward_case({.between = "Mul(0,1)"}), "more than a bias and an activation");
  LayerCase layer = feed_forward_case({});
  layer.epilogue = PointwiseProgram::parse("Tanh(0)", 1);
  expect_reason(layer, "the epilogue is more than a sum");
  layer = feed_forward_case({});
  layer.inputs[2].constant = false;
  expect_reason(layer, "weights are not constant");
}

}  // namespace
}  // namespace lathe::cpu
