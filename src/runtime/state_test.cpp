// SPDX-License-Identifier: Apache-2.0
//
// State on the real CPU backend: every attention kernel reads keys and values that have room behind them.
#include "runtime/state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "backend/all.h"
#include "base/error.h"
#include "base/error_check.h"
#include "ir/text.h"
#include "memory/memory_plan.h"
#include "ops/interpreter.h"
#include "runtime/engine.h"

namespace lathe {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// A decoder's attention over caches; `s` new tokens at once.
constexpr const char* kAttention = R"(graph "step" {
  input %q: TYPE[b, 4, s, 16]
  input %k: TYPE[b, 2, s, 16]
  input %v: TYPE[b, 2, s, 16]
  input %past.k: TYPE[b, 2, p, 16]
  input %past.v: TYPE[b, 2, p, 16]
  %present.k: TYPE[b, 2, p + s, 16] = Concat "append keys" (%past.k, %k) {axis=2}
  %present.v: TYPE[b, 2, p + s, 16] = Concat "append values" (%past.v, %v) {axis=2}
  %y: TYPE[b, 4, s, 16] = Attention "attention" (%q, %present.k, %present.v) {scale=0.25}
  output %y
  output %present.k
  output %present.v
})";

// h + x, and a sum that grows by nothing.
constexpr const char* kRecurrent = R"(graph "recurrent" {
  input %x: float32[n, 3]
  input %h: float32[n, 3]
  %hn: float32[n, 3] = Pointwise "add" (%x, %h) {code=Add}
  output %hn
})";

// By the number of the tactic among those that are supported in linear formats and the graph's types.
using Pick = std::function<size_t(const Node& node, const std::vector<Tactic>& tactics)>;

std::vector<Tactic> plain_tactics(const Backend& backend, const LayerQuery& query) {
  std::vector<Tactic> plain;
  const auto fits = [&](const std::vector<TensorType>& types, const std::vector<ValueId>& values) {
    for (size_t i = 0; i < types.size(); ++i)
      if (types[i].dtype != DType::Undefined &&
          types[i] != TensorType{query.graph.value(values[i]).dtype, kLinear})
        return false;
    return true;
  };
  for (const Tactic& t : backend.tactics(query))
    if (t.support.ok && fits(t.inputs, query.layer().inputs) && fits(t.outputs, query.layer().outputs))
      plain.push_back(t);
  return plain;
}

struct Made {
  std::shared_ptr<const Engine> engine;
  std::shared_ptr<const Graph> graph;
  std::vector<std::string> tactics;  // by layer
};

Made make_engine(const std::string& text, const OptimizationProfile& profile, const Pick& pick = {}) {
  const auto backend = open_backend({.device = "cpu", .threads = 2});
  auto graph = std::make_shared<Graph>(parse_graph(text));
  auto plan = std::make_shared<Plan>();
  plan->inputs = input_infos(*graph);
  plan->outputs = output_infos(*graph);
  plan->profiles = {complete_profile(plan->inputs, profile)};
  plan->set_portable_graph(graph);
  PlanVariant variant{.graph = graph, .ranges = symbol_ranges(plan->inputs, plan->profiles[0])};
  Made made;
  for (const NodeId id : graph->order()) {
    const std::vector<Tactic> plain = plain_tactics(*backend, {*graph, id, variant.ranges});
    const size_t index = pick ? pick(graph->node(id), plain) : 0;
    variant.choices.push_back({plain.at(index), 0});
    made.tactics.push_back(plain[index].name);
  }
  variant.memory = plan_memory(*graph, variant.choices, variant.ranges);
  variant.blobs = std::make_shared<PackedBlocks>();
  plan->set_section(
      std::make_shared<PlanSection>(PlanSection{.target = backend->target(), .variants = {variant}}));
  made.engine = Engine::load(plan, backend);
  made.graph = graph;
  return made;
}

Tensor pattern(DType dtype, Extents extents, double seed) {
  std::vector<double> values(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(seed + 0.7 * static_cast<double>(i));
  return Tensor::from_doubles(dtype, std::move(extents), values);
}

void expect_close(const Tensor& actual, const Tensor& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.extents(), wanted.extents()) << what;
  const std::vector<double> a = actual.to_doubles(), b = wanted.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << what << ", element " << i;
}

const std::vector<StatePair> kCaches = {{"past.k", "present.k"}, {"past.v", "present.v"}};

OptimizationProfile caches(int64_t batch, int64_t tokens, int64_t most) {
  return {.shapes = {{"q", {{1, 4, 1, 16}, {batch, 4, tokens, 16}, {batch, 4, tokens, 16}}},
                     {"past.k", {{1, 2, 0, 16}, {batch, 2, most, 16}, {batch, 2, most, 16}}}},
          .values = {}};
}

// A context that decodes, and the caches as the oracle has them.
struct Decoding {
  Decoding(const Made& made, DType type, double seed)
      : made(made), type(type), seed(seed), context(made.engine->create_context()) {
    context->keep_state(kCaches);
  }
  void step(int64_t batch, int64_t tokens, double tolerance, const std::string& what) {
    if (past.empty()) past.assign(2, Tensor::allocate(type, {batch, 2, 0, 16}));
    const std::vector<Tensor> data = {pattern(type, {batch, 4, tokens, 16}, seed),
                                      pattern(type, {batch, 2, tokens, 16}, seed + 1),
                                      pattern(type, {batch, 2, tokens, 16}, seed + 2)};
    seed += 3;
    const std::vector<Tensor> found = context->run(data);
    const std::vector<Tensor> wanted =
        interpret(*made.graph, std::vector{data[0], data[1], data[2], past[0], past[1]});
    past = {wanted[1], wanted[2]};
    ASSERT_EQ(found.size(), 1u);
    expect_close(found[0], wanted[0], tolerance, what);
    for (size_t i = 0; i < 2; ++i) {
      const Tensor kept = context->read_state(kCaches[i].input);
      ASSERT_EQ(kept.extents(), past[i].extents()) << what;
      EXPECT_TRUE(std::ranges::equal(kept.bytes(), past[i].bytes())) << what;
    }
  }
  const Made& made;
  DType type;
  double seed;
  std::unique_ptr<Context> context;
  std::vector<Tensor> past;
};

void decode_with_every_kernel(const std::string& type_name, DType type, double tolerance) {
  for (size_t tactic = 0, count = 1; tactic < count; ++tactic)
    for (const int64_t tokens : {1, 13}) {
      const Made made = make_engine(replaced(kAttention, "TYPE", type_name), caches(2, tokens, 80),
                                    [&](const Node& node, const std::vector<Tactic>& tactics) -> size_t {
                                      if (!std::holds_alternative<Attention>(node.op)) return 0;
                                      count = tactics.size();
                                      return tactic;
                                    });
      Decoding one(made, type, 0.5), other(made, type, 40);
      for (int i = 0; i < 6; ++i) {
        const std::string what =
            made.tactics.back() + ", " + std::to_string(tokens) + " tokens, step " + std::to_string(i);
        one.step(2, tokens, tolerance, what);
        if (i % 2 == 0) other.step(1, tokens, tolerance, what + " of another context");
      }
      const bool own_kernel = made.tactics.back().starts_with("flash");
      for (size_t i = 0; i < 2 && own_kernel; ++i)
        EXPECT_EQ(one.context->state()->note(i), kCaches[i].input + " -> " + kCaches[i].output +
                                                     ": appended in place along axis 2, room for " +
                                                     std::to_string(80 + tokens));
    }
}

TEST(State, EveryAttentionReadsKeysWithRoom) {
  decode_with_every_kernel("float32", DType::Float32, 1e-5);
}
TEST(State, EveryAttentionReadsKeysWithRoomInBFloat16) {
  decode_with_every_kernel("bfloat16", DType::BFloat16, 2e-2);
}

TEST(State, IsFullBeginsAgainAndTakesValues) {
  const Made made = make_engine(replaced(kAttention, "TYPE", "float32"), caches(1, 1, 3));
  Decoding d(made, DType::Float32, 1);
  for (int i = 0; i < 4; ++i) d.step(1, 1, 1e-5, "step");
  EXPECT_TRUE(d.context->state()->is_full());
  const std::string full =
      "state 'past.k' is full: it has 4 rows along dim 2, and a step of optimization profile 0 reads 3 at "
      "most. Reset the state, or "
      "build the engine with a larger maximum (--maxShapes)";
  const std::vector<Tensor> data = {pattern(DType::Float32, {1, 4, 1, 16}, 0),
                                    pattern(DType::Float32, {1, 2, 1, 16}, 0),
                                    pattern(DType::Float32, {1, 2, 1, 16}, 0)};
  EXPECT_EQ(error_of([&] { d.context->run(data); }), full);
  EXPECT_TRUE(std::ranges::equal(d.context->read_state("past.k").bytes(), d.past[0].bytes()));  // unharmed
  d.context->reset_state();
  d.past.clear();
  d.step(1, 1, 1e-5, "after a reset");

  d.past = {pattern(DType::Float32, {1, 2, 2, 16}, 7), pattern(DType::Float32, {1, 2, 2, 16}, 8)};
  const std::vector<Tensor> begin = d.past;
  for (size_t i = 0; i < 2; ++i) d.context->set_state(kCaches[i].input, begin[i]);
  d.step(1, 1, 1e-5, "from given values");
  d.context->reset_state();
  d.past = begin;
  d.step(1, 1, 1e-5, "from given values again");
  EXPECT_EQ(error_of([&] {
              d.context->set_state("past.k", pattern(DType::Float32, {1, 2, 9, 16}, 0));
              d.context->run(data);
            }),
            "state 'past.k' begins with 9 rows along dim 2, and the optimization profile has room for 4");
  EXPECT_NE(error_of([&] { d.context->run(data); }), "no error");  // the same again
  EXPECT_EQ(error_of([&] {
              d.context->set_state("past.k", pattern(DType::Float32, {1, 3, 1, 16}, 0));
            }),
            "input 'past.k': dim 1 must be 2, but is 3");
}

TEST(State, AnotherBatchNeedsAReset) {
  const Made made = make_engine(replaced(kAttention, "TYPE", "float32"), caches(2, 1, 8));
  Decoding d(made, DType::Float32, 1);
  d.step(1, 1, 1e-5, "one item");
  const auto data = [](int64_t batch) {
    return std::vector<Tensor>{pattern(DType::Float32, {batch, 4, 1, 16}, 0),
                               pattern(DType::Float32, {batch, 2, 1, 16}, 0),
                               pattern(DType::Float32, {batch, 2, 1, 16}, 0)};
  };
  const std::string error = error_of([&] { d.context->run(data(2)); });
  EXPECT_NE(error.find("with state of the steps before, which a reset would end"), std::string::npos)
      << error;
  d.step(1, 1, 1e-5, "one item goes on");
  d.context->reset_state();
  d.past.clear();
  d.step(2, 1, 1e-5, "two items");
}

TEST(State, TwoMemoriesChangePlaces) {
  const Made made = make_engine(kRecurrent, {.shapes = {{"x", {{1, 3}, {2, 3}, {4, 3}}}}, .values = {}});
  const auto one = made.engine->create_context(), other = made.engine->create_context();
  for (const auto* context : {&one, &other})
    (*context)->keep_state(find_state_pairs(made.engine->inputs(), made.engine->outputs()));
  const Tensor x = Tensor::from<float>({1, 3}, {1, 2, 3}),
               y = Tensor::from<float>({2, 3}, {1, 1, 1, 2, 2, 2});
  for (int i = 1; i <= 5; ++i) {
    EXPECT_TRUE(one->run(std::vector{x}).empty());
    other->run(std::vector{y});
    const float n = static_cast<float>(i);
    expect_close(one->read_state("h"), Tensor::from<float>({1, 3}, {n, 2 * n, 3 * n}), 0, "one");
    expect_close(other->read_state("h"), Tensor::from<float>({2, 3}, {n, n, n, 2 * n, 2 * n, 2 * n}), 0,
                 "other");
  }
  EXPECT_EQ(one->state()->note(0), "h -> hn: two memories that change places, because a step replaces it");
  EXPECT_EQ(error_of([&] {
              one->set_input_shape("h", {1, 3});
            }),
            "input 'h' is state that the context keeps: its shape follows from its first values and the "
            "steps since");
  one->keep_state({});
  const Tensor h = Tensor::from<float>({1, 3}, {5, 5, 5});
  expect_close(one->run(std::vector{x, h}).at(0), Tensor::from<float>({1, 3}, {6, 7, 8}), 0, "without state");
  EXPECT_EQ(error_of([&] { one->read_state("h"); }),
            "input 'h' is no state: keep_state() says first which inputs are");
}

TEST(State, WhatCannotBeState) {
  const Made made = make_engine(R"(graph "odd" {
  input %x: float32[n, 3]
  input %c: float32[3]
  %a: int32[n, 3] = Cast "cast" (%x) {to=int32}
  %b: float32[n, 6] = Concat "twice" (%x, %x) {axis=1}
  %d: float32[6] = Concat "more" (%c, %c) {axis=0}
  output %a
  output %b
  output %d
})",
                                {.shapes = {{"x", {{1, 3}, {2, 3}, {4, 3}}}}, .values = {}});
  const auto context = made.engine->create_context();
  const auto refusal = [&](const char* input, const char* output) {
    return error_of([&] { context->keep_state(std::vector<StatePair>{{input, output}}); });
  };
  EXPECT_EQ(refusal("x", "a"),
            "input 'x' (float32 [n, 3]) and output 'a' (int32 [n, 3]) cannot be state: their types differ");
  EXPECT_EQ(refusal("x", "d"),
            "input 'x' (float32 [n, 3]) and output 'd' (float32 [6]) cannot be state: their ranks differ");
  EXPECT_EQ(refusal("c", "d"),
            "input 'c' (float32 [3]) and output 'd' (float32 [6]) cannot be state: dim 0 is 3 before a step "
            "and 6 after "
            "it; export the model with a dynamic dim there");
  EXPECT_EQ(refusal("y", "d"), "the engine has no input 'y'; there are: x, c");
  EXPECT_EQ(refusal("c", "y"), "the engine has no output 'y'; there are: a, b, d");
}

TEST(StatePairs, NamesTell) {
  const auto infos = [](const std::vector<std::string>& names) {
    std::vector<TensorInfo> all;
    for (const std::string& name : names)
      all.push_back({.name = name, .dtype = DType::Float32, .shape = {Dim(1)}});
    return all;
  };
  const auto outputs_of = [&](const std::vector<std::string>& inputs,
                              const std::vector<std::string>& outputs) {
    std::string text;
    for (const StatePair& pair : find_state_pairs(infos(inputs), infos(outputs)))
      text += pair.input + ">" + pair.output + " ";
    return text;
  };
  EXPECT_EQ(outputs_of({"input_ids", "past_key_values.0.key", "past_key_values.0.value"},
                       {"logits", "present.0.key", "present.0.value"}),
            "past_key_values.0.key>present.0.key past_key_values.0.value>present.0.value ");
  EXPECT_EQ(outputs_of({"past_0", "decoder_past_key_1"}, {"present_0", "decoder_present_key_1"}),
            "past_0>present_0 decoder_past_key_1>decoder_present_key_1 ");
  EXPECT_EQ(outputs_of({"x", "h0", "c0"}, {"y", "hn", "cn"}), "h0>hn c0>cn ");
  EXPECT_EQ(
      outputs_of({"state", "in_h", "c_in", "cached_key_0"}, {"new_cached_key_0", "stateN", "out_h", "c_out"}),
      "state>stateN in_h>out_h c_in>c_out cached_key_0>new_cached_key_0 ");
  EXPECT_EQ(error_of([&] { outputs_of({"x"}, {"y"}); }),
            "no names tell which outputs are state: the inputs are x, the outputs are y. Known are past.x "
            "and present.x, x_in and x_out, h0 "
            "and hn, x and new_x; others are given as pairs <input>:<output>");
  const auto parsed = [&](const std::string& text) {
    return parse_state_pairs({text}, infos({"a:0", "past.1", "past.2"}), infos({"b:1", "now.1", "now.2"}));
  };
  EXPECT_EQ(parsed("a:0:b:1"), (std::vector<StatePair>{{"a:0", "b:1"}}));
  EXPECT_EQ(parsed("past:now"), (std::vector<StatePair>{{"past.1", "now.1"}, {"past.2", "now.2"}}));
  EXPECT_EQ(error_of([&] { parsed("past:b"); }),
            "no input 'past' with an output 'b', and no names that begin so and go on alike: the inputs are "
            "a:0, past.1, past.2, the outputs are b:1, now.1, now.2");
  EXPECT_EQ(error_of([&] { parsed(":b"); }),
            "':b' is no pair of state: write <input>:<output>, the input of a step and the output that is "
            "its next value");
}

}  // namespace
}  // namespace lathe
