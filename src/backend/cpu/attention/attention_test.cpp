// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/check/grid_check.h"
#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily attention_tactics();
namespace {

LayerCase attention(int64_t b, int64_t h, int64_t sq, int64_t sk, int64_t d, int64_t dv,
                    AttentionLayout layout, bool causal = false) {
  const auto extents = [&](int64_t s, int64_t width) {
    return layout == AttentionLayout::BHSD ? Extents{b, h, s, width} : Extents{b, s, h, width};
  };
  LayerCase layer{
      .op = Attention{.scale = 0.25f, .causal = causal, .layout = layout},
      .inputs = {{.extents = extents(sq, d)}, {.extents = extents(sk, d)}, {.extents = extents(sk, dv)}}};
  layer.tolerance = 1e-5;
  return layer;
}

// With BF16's dot products the weights are rounded too: half a unit of 2^-8 each, relative to the largest
// value.
constexpr double kRoundedWeights = 2e-3;

TEST(AttentionTactics, SizesLayoutsAndMasksInBf16) {
  for (const auto layout : {AttentionLayout::BHSD, AttentionLayout::BSHD})
    for (const bool causal : {false, true})
      for (const Extents& mask : std::vector<Extents>{{}, {1, 1, 1, 47}, {2, 3, 33, 47}, {47}}) {
        SCOPED_TRACE(to_string(mask));
        LayerCase layer = attention(2, 3, 33, 47, 20, 36, layout, causal);
        if (!mask.empty()) layer.inputs.push_back({.extents = mask});
        layer.allowed_types = {DType::BFloat16};
        layer.tolerance = kRoundedWeights;
        EXPECT_GE(check_layer(attention_tactics(), layer), 2);
      }
  LayerCase layer = attention(1, 1, 70, 300, 64, 64, AttentionLayout::BHSD);
  layer.allowed_types = {DType::BFloat16};
  layer.tolerance = kRoundedWeights;
  EXPECT_GE(check_layer(attention_tactics(), layer), 2);
}

TEST(AttentionTactics, SizesAndLayouts) {
  for (const auto layout : {AttentionLayout::BHSD, AttentionLayout::BSHD})
    for (const bool causal : {false, true}) {
      EXPECT_GE(check_layer(attention_tactics(), attention(2, 3, 33, 33, 16, 16, layout, causal)), 1);
      EXPECT_GE(check_layer(attention_tactics(), attention(1, 2, 5, 47, 20, 36, layout, causal)), 1);
      EXPECT_GE(check_layer(attention_tactics(), attention(1, 1, 70, 300, 64, 64, layout, causal)), 1);
      EXPECT_GE(check_layer(attention_tactics(), attention(1, 1, 1, 600, 8, 40, layout, causal)), 1);
    }
}

// A query whose scores are all NaN, or NaN and minus infinity, is not one whose keys are all forbidden.
// Heads of q that share one of k and v, in blocks of queries and a single one.
TEST(AttentionTactics, SharedHeads) {
  for (const auto layout : {AttentionLayout::BHSD, AttentionLayout::BSHD})
    for (const int64_t queries : {1, 3, 40})
      for (const int64_t shared : {1, 2, 6})
        for (const Extents& mask : std::vector<Extents>{{}, {2, 1, 1, 50}, {6, 1, 50}, {2, 6, queries, 50}}) {
          SCOPED_TRACE(std::to_string(queries) + " queries, " + std::to_string(shared) + " heads");
          LayerCase layer = attention(2, 6, queries, 50, 16, 24, layout);
          for (const size_t i : {size_t{1}, size_t{2}})
            layer.inputs[i].extents[layout == AttentionLayout::BHSD ? 1 : 2] = shared;
          if (!mask.empty()) layer.inputs.push_back({.extents = mask, .low = -3, .high = 1});
          layer.allowed_types = {DType::BFloat16};
          layer.tolerance = kRoundedWeights;
          EXPECT_GE(check_layer(attention_tactics(), layer), 2);
        }
}

TEST(AttentionTactics, RowsWithoutANumberAreNan) {
  LayerCase layer = attention(1, 1, 9, 24, 16, 16, AttentionLayout::BHSD);
  layer.inputs[0].low = layer.inputs[0].high = std::numeric_limits<double>::quiet_NaN();
  layer.allowed_types = {DType::BFloat16};
  EXPECT_GE(check_layer(attention_tactics(), layer), 1);
}

TEST(AttentionTactics, Masks) {
  for (const DType type : {DType::Bool, DType::Float32})
    for (const Extents& mask :
         std::vector<Extents>{{2, 1, 1, 40}, {19, 40}, {2, 3, 19, 40}, {1, 3, 1, 1}, {40}}) {
      SCOPED_TRACE(to_string(mask));
      LayerCase layer = attention(2, 3, 19, 40, 32, 32, AttentionLayout::BHSD);
      layer.inputs.push_back({.dtype = type, .extents = mask, .low = 0});
      EXPECT_GE(check_layer(attention_tactics(), layer), 1);
    }
}

TEST(AttentionTactics, ForbiddenRowsGiveZeros) {
  LayerCase layer = attention(1, 1, 3, 300, 8, 8, AttentionLayout::BHSD);
  layer.inputs.push_back({.dtype = DType::Bool, .extents = {1, 1, 1, 1}, .low = 0, .high = 0.5});
  EXPECT_GE(check_layer(attention_tactics(), layer), 1);
}

// The lowest number is not minus infinity: keys that it forbids all weigh the same where there are no others.
TEST(AttentionTactics, RowsForbiddenByAFiniteNumberWeighAllKeys) {
  for (const int64_t keys : {24, 300, 600}) {
    SCOPED_TRACE(keys);
    LayerCase layer = attention(1, 2, 9, keys, 16, 16, AttentionLayout::BHSD);
    constexpr double kLowest = std::numeric_limits<float>::lowest();
    layer.inputs.push_back({.extents = {1, 1, 9, keys}, .low = kLowest, .high = kLowest});
    EXPECT_GE(check_layer(attention_tactics(), layer), 1);
    layer.allowed_types = {DType::BFloat16};
    layer.tolerance = kRoundedWeights;
    EXPECT_GE(check_layer(attention_tactics(), layer), 2);
  }
}

TEST(AttentionTactics, HalfTypesAndEpilogue) {
  for (const int64_t queries : {1, 3, 37}) {
    SCOPED_TRACE(queries);
    LayerCase layer = attention(1, 2, queries, 50, 24, 40, AttentionLayout::BSHD);
    layer.allowed_types = {DType::BFloat16, DType::Float16};
    layer.tolerance = kRoundedWeights;
    EXPECT_GE(check_layer(attention_tactics(), layer), 3);
    layer.epilogue = PointwiseProgram::parse("Add(0,1)", 2);
    layer.operands = {{.extents = {1, queries, 2, 40}}};
    EXPECT_GE(check_layer(attention_tactics(), layer), 3);
  }
}

TEST(AttentionTactics, KeysAndValuesOfAnotherType) {
  for (const DType type : {DType::Float16, DType::BFloat16})
    for (const int64_t queries : {1, 3, 37}) {
      LayerCase layer = attention(2, 4, queries, 50, 24, 40, AttentionLayout::BHSD);
      for (const size_t i : {size_t{1}, size_t{2}}) {
        layer.inputs[i].dtype = type;
        layer.inputs[i].extents[1] = 2;
      }
      EXPECT_GE(check_layer(attention_tactics(), layer), 1) << queries;
    }
}

// One query is no tile: its results are rounded behind the rows that it reads.
TEST(AttentionTactics, ResultsAsBytes) {
  for (const char* const queries : {"1", "37"}) {
    const std::string q = std::string("float32[1, 2, ") + queries + ", 24]";
    const auto ran = check_grids(
        attention_tactics(),
        "graph \"g\" {\n input %q: " + q +
            "\n input %k: float32[1, 2, 50, 24]\n input %v: float32[1, 2, 50, " + "24]\n %y: " + q +
            " quantized uint8 scale [0.015625] zero [128] = Attention \"a\" (%q, %k, %v) " +
            "{scale=0.25} epilogue {Clip[-2,1.984375](0) RoundTo[0.015625](1)}\n output %y\n}\n");
    EXPECT_GE(count_with(ran, "-> uint8"), 1) << queries;
  }
}

TEST(AttentionTactics, SaysWhyNot) {
  LayerCase layer = attention(1, 1, 3, 3, 4, 4, AttentionLayout::BHSD);
  for (CheckedInput& input : layer.inputs) input.dtype = DType::Float64;
  const auto reasons = refusals(attention_tactics(), layer);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("no vector kernel for float64"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
