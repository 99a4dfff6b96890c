// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily linear_attention_family();
namespace {

using Rule = LinearAttentionRule;

struct Problem {
  Rule rule = Rule::GatedDelta;
  int64_t batch = 2, steps = 5, q_heads = 2, kv_heads = 2, keys = 6, values = 9;
  bool past = true, narrow = false;  // one decay for a head, one beta for all heads
};

LayerCase layer_of(const Problem& p) {
  const bool gated = p.rule == Rule::Gated || p.rule == Rule::GatedDelta;
  const bool delta = p.rule == Rule::Delta || p.rule == Rule::GatedDelta;
  const auto rows = [&](int64_t width, double low, double high, bool absent = false) {
    return CheckedInput{.extents = {p.batch, p.steps, width}, .low = low, .high = high, .absent = absent};
  };
  return {.op = LinearAttention{p.rule, p.q_heads, p.kv_heads, 0.4f},
          .inputs =
              {rows(p.q_heads * p.keys, -1, 1),
               rows(p.kv_heads * p.keys, -0.5, 0.5),
               rows(p.kv_heads * p.values, -1, 1),
               {.extents = {p.batch, p.kv_heads, p.keys, p.values}, .low = -1, .high = 1, .absent = !p.past},
               rows(p.narrow ? p.kv_heads : p.kv_heads * p.keys, -1, 0, !gated),
               rows(p.narrow ? 1 : p.kv_heads, 0, 1, !delta)},
          .outputs = 2,
          .tolerance = 1e-5,
          .rounding = 4};
}

TEST(CudaLinearAttention, RulesHeadsAndGates) {
  std::vector<LayerCase> cases;
  for (const Rule rule : {Rule::Linear, Rule::Gated, Rule::Delta, Rule::GatedDelta})
    for (const bool narrow : {true, false})
      cases.push_back(layer_of({.rule = rule, .q_heads = narrow ? 2 : 6, .past = narrow, .narrow = narrow}));
  EXPECT_EQ(check_generated(linear_attention_family(), cases), 8);
}

TEST(CudaLinearAttention, WidthsStepsAndTypes) {
  std::vector<LayerCase> cases;
  cases.push_back(layer_of({.values = 130}));
  cases.back().allowed_types = {DType::Float16, DType::BFloat16};
  cases.push_back(layer_of({.batch = 1, .steps = 1, .keys = 128, .values = 64}));
  cases.push_back(layer_of({.batch = 1, .steps = 70, .keys = 33}));
  cases.push_back(layer_of({.batch = 1, .steps = 0}));
  EXPECT_EQ(check_generated(linear_attention_family(), cases), 3 + 3);
}

}  // namespace
}  // namespace lathe::cuda
