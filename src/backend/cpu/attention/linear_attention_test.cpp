// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily linear_attention_tactics();
namespace {

using Rule = LinearAttentionRule;
constexpr Rule kRules[] = {Rule::Linear, Rule::Gated, Rule::Delta, Rule::GatedDelta};

struct LinearAttentionProblem {
  Rule rule = Rule::GatedDelta;
  int64_t batch = 2, steps = 5, q_heads = 2, kv_heads = 2, keys = 6, values = 9;
  bool past = true, narrow = false;  // one decay for a head, one beta for all heads
  DType type = DType::Float32;
};

LayerCase linear_attention_layer(const LinearAttentionProblem& p) {
  const bool gated = p.rule == Rule::Gated || p.rule == Rule::GatedDelta;
  const bool delta = p.rule == Rule::Delta || p.rule == Rule::GatedDelta;
  const auto rows = [&](int64_t width, double low, double high, bool absent = false) {
    return CheckedInput{p.type, {p.batch, p.steps, width}, false, low, high, absent};
  };
  return {.op = LinearAttention{p.rule, p.q_heads, p.kv_heads, 0.4f},
          .inputs = {rows(p.q_heads * p.keys, -1, 1),
                     rows(p.kv_heads * p.keys, -0.5, 0.5),
                     rows(p.kv_heads * p.values, -1, 1),
                     {p.type, {p.batch, p.kv_heads, p.keys, p.values}, false, -1, 1, !p.past},
                     rows(p.narrow ? p.kv_heads : p.kv_heads * p.keys, -1, 0, !gated),
                     rows(p.narrow ? 1 : p.kv_heads, 0, 1, !delta)},
          .outputs = 2,
          .rounding = 2};
}

TEST(LinearAttentionTactics, RulesHeadsAndGates) {
  for (const Rule rule : kRules)
    for (const int64_t q_heads : {2, 6})
      for (const bool past : {true, false})
        for (const bool narrow : {true, false})
          EXPECT_GE(check_layer(linear_attention_tactics(),
                                linear_attention_layer(
                                    {.rule = rule, .q_heads = q_heads, .past = past, .narrow = narrow})),
                    1);
}

TEST(LinearAttentionTactics, WidthsStepsAndTypes) {
  for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16})
    for (const int64_t values : {1, 32, 64, 130})
      EXPECT_GE(
          check_layer(linear_attention_tactics(), linear_attention_layer({.values = values, .type = type})),
          1);
  EXPECT_GE(check_layer(linear_attention_tactics(),
                        linear_attention_layer({.batch = 1, .steps = 1, .keys = 128, .values = 128})),
            1);
  EXPECT_GE(
      check_layer(linear_attention_tactics(), linear_attention_layer({.batch = 1, .steps = 70, .keys = 16})),
      1);
  EXPECT_GE(check_layer(linear_attention_tactics(), linear_attention_layer({.batch = 1, .steps = 0})), 1);
}

}  // namespace
}  // namespace lathe::cpu
