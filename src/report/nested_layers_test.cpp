// SPDX-License-Identifier: Apache-2.0
//
// Layers of bodies are layers: the tuner chooses their tactics and formats, engine files keep them, and
// profiles have rows for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "builder/builder.h"
#include "ir/text.h"
#include "ops/interpreter.h"
#include "plan/check_variant.h"
#include "reference/random_input.h"
#include "report/layer_info.h"

namespace lathe {
namespace {

// Two convolutions that want channels side by side, in a branch and in a loop inside of the other one.
constexpr const char* kModel = R"(graph "branches" {
  input %c: bool[]
  input %x: float32[n, 16, 24, 24]
  %y: float32[n, 16, 24, 24] = If "if" (%c, %x) {
    then_branch=graph "then" {
      input %x: float32[n, 16, 24, 24]
      const %w1: float32[16, 16, 3, 3] = random 1
      const %w2: float32[16, 16, 3, 3] = random 2
      const %small: float32[] = [0.05]
      %a: float32[n, 16, 24, 24] = Conv "/first" (%x, %w1) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]}
      %b: float32[n, 16, 24, 24] = Conv "if//second" (%a, %w2) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]}
      %d: float32[n, 16, 24, 24] = Pointwise "damp" (%b, %small) {code=Mul}
      output %d
    }, else_branch=graph "else" {
      input %x: float32[n, 16, 24, 24]
      const %trips: int64[] = [3]
      const %true: bool[] = [1]
      %z: float32[n, 16, 24, 24] = Loop "loop" (%trips, %true, %x) {
        body=graph "body" {
          input %i: int64[]
          input %go: bool[]
          input %h: float32[n, 16, 24, 24]
          %t: float32[n, 16, 24, 24] = Pointwise "tanh" (%h) {code=Tanh}
          output %go
          output %t
        }, carried=1}
      output %z
    }}
  %r: float32[n, 16, 24, 24] = Pointwise "relu" (%y) {code=Relu}
  output %r
})";

Network network() {
  return {.graph = std::make_shared<Graph>(parse_graph(kModel)), .model = {.name = "branches"}};
}

BuildOptions options(int level, std::shared_ptr<TimingCache> cache = nullptr) {
  BuildOptions options{.optimization_level = level};
  const Extents most = {2, 16, 24, 24};
  options.profiles = {{.shapes = {{"x", {{1, 16, 24, 24}, most, most}}}, .values = {}}};
  options.timing_cache = std::move(cache);
  return options;
}

class Timings final : public Observer {
 public:
  void on(const Event& event) override {
    if (const auto* t = std::get_if<TacticTimed>(&event); t && t->time_ms > 0 && !t->from_cache) ++timed;
  }
  int timed = 0;
};

class NestedLayersTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { backend = open_backend({.threads = 2}); }
  static void TearDownTestSuite() { backend.reset(); }

  static std::vector<Tensor> inputs(bool condition, int64_t n) {
    std::vector<Tensor> all = random_inputs(*network().graph, {{"n", n}}, static_cast<uint64_t>(n));
    all[0] = Tensor::from_doubles(DType::Bool, {}, std::vector<double>{condition ? 1.0 : 0.0});
    return all;
  }
  static void expect_right(Context& context) {
    const Network model = network();
    for (const bool condition : {true, false, true})
      for (const int64_t n : {2, 1}) {
        const auto given = inputs(condition, n);
        const auto got = context.run(given)[0].to_doubles();
        const auto expected = interpret(*model.graph, given)[0].to_doubles();
        ASSERT_EQ(got.size(), expected.size());
        double most = 0;
        for (const double v : expected) most = std::max(most, std::abs(v));
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], expected[i], 1e-5 * most) << condition << n << i;
      }
  }
  static const Tactic& if_tactic(const Engine& engine) {
    const Graph& graph = engine.graph();
    for (size_t i = 0; i < graph.order().size(); ++i)
      if (graph.node(graph.order()[i]).name == "if") return engine.choices()[i].tactic;
    throw_input_error("no layer 'if'");
  }

  inline static std::shared_ptr<const Backend> backend;
};

TEST_F(NestedLayersTest, TunedSavedLoadedAndRun) {
  for (const int level : {0, 2}) {
    Timings timings;
    const auto engine = Builder(backend, timings).build(network(), options(level));
    EXPECT_EQ(timings.timed > 0, level > 0);
    const Tactic& tactic = if_tactic(*engine);
    ASSERT_EQ(tactic.bodies.size(), 2u);
    EXPECT_FALSE(tactic.bodies[0].empty());
    const auto loaded = Engine::load(Plan::from_bytes(engine->plan()->to_bytes(), "bodies.engine"), backend);
    ASSERT_EQ(if_tactic(*loaded).bodies.size(), 2u);
    for (size_t i = 0; i < tactic.bodies[0].size(); ++i)
      EXPECT_EQ(if_tactic(*loaded).bodies[0][i].name, tactic.bodies[0][i].name);
    for (const auto& e : {engine, loaded}) expect_right(*e->create_context());
  }
}

// The tactics of a body are in the cache as those of other layers are: a second build times nothing.
TEST_F(NestedLayersTest, TimesAreInTheCache) {
  const auto cache = std::make_shared<TimingCache>();
  Timings first, second;
  const auto bytes = Builder(backend, first).build(network(), options(1, cache))->plan()->to_bytes();
  EXPECT_GT(first.timed, 0);
  EXPECT_EQ(Builder(backend, second).build(network(), options(1, cache))->plan()->to_bytes(), bytes);
  EXPECT_EQ(second.timed, 0);
}

TEST_F(NestedLayersTest, ProfilesHaveARowForEachLayerOfABody) {
  Timings ignored;
  const auto engine = Builder(backend, ignored).build(network(), options(0));
  const std::vector<std::string> names = engine->timed_names();
  const auto row = [&](const std::string& name) {
    const auto is_asked = [&](const std::string& row) { return row.starts_with(name); };
    return static_cast<size_t>(std::find_if(names.begin(), names.end(), is_asked) - names.begin());
  };
  const size_t holder = row("if"), conv = row("if/then_branch/first"), loop = row("if/else_branch/loop"),
               second = row("if/then_branch/second + "), tanh = row("if/else_branch/loop/body/tanh"),
               relu = row("relu");
  ASSERT_LT(holder, conv);
  ASSERT_LT(conv, second);
  ASSERT_LT(second, loop);
  ASSERT_LT(loop, tanh);
  ASSERT_LT(tanh, relu);
  ASSERT_LT(relu, names.size());
  const auto context = engine->create_context();
  context->set_input_shape("x", {2, 16, 24, 24});
  const auto stream = backend->create_stream();
  std::vector<float> output(2 * 16 * 24 * 24);
  for (const bool condition : {true, false}) {
    LayerProfiler profiler(names);
    const auto given = inputs(condition, 2);
    void* const bindings[] = {const_cast<std::byte*>(given[0].bytes().data()),
                              const_cast<std::byte*>(given[1].bytes().data()), output.data()};
    for (int run = 0; run < 3; ++run) context->enqueue_profiled(bindings, *stream, profiler);
    EXPECT_EQ(profiler.total_ms(conv) > 0, condition);
    EXPECT_EQ(profiler.total_ms(tanh) > 0, !condition);
    EXPECT_EQ(profiler.total_ms(loop) > 0, !condition);
    EXPECT_GT(profiler.total_ms(relu), 0);
    double sum = 0;
    for (size_t i = 0; i < names.size(); ++i) sum += profiler.total_ms(i);
    EXPECT_NEAR(sum, profiler.total_ms(), 1e-9 * sum);
  }
  // The layers of the engine have the same names.
  std::vector<std::string> told;
  for (const LayerInfo& layer : describe_layers(*engine->plan(), engine->variant(), std::nullopt).layers) {
    told.push_back(layer.name);
    EXPECT_EQ(layer.is_nested, layer.name.find('/') != std::string::npos && layer.name.starts_with("if/"));
    if (layer.name == "if/then_branch/first") {
      EXPECT_EQ(layer.parameter_type, "Convolution");
      EXPECT_FALSE(layer.tactic.empty());
    }
  }
  EXPECT_EQ(told, names);
}

// A file that says of a value in a body what its layer does not.
TEST_F(NestedLayersTest, DamagedTacticsAreRefused) {
  Timings ignored;
  const auto engine = Builder(backend, ignored).build(network(), options(0));
  const auto expect_refused = [&](const auto& damage, const std::string& part) {
    PlanVariant variant = engine->variant();
    Tactic* tactic = nullptr;
    for (size_t i = 0; i < variant.choices.size(); ++i)
      if (!variant.choices[i].tactic.bodies.empty()) tactic = &variant.choices[i].tactic;
    ASSERT_NE(tactic, nullptr);
    damage(*tactic);
    try {
      check_variant(variant, WeightBytes::Absent);
      FAIL() << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  EXPECT_NO_THROW(check_variant(engine->variant(), WeightBytes::Absent));
  expect_refused([](Tactic& t) { t.bodies.pop_back(); }, "another number of bodies");
  expect_refused([](Tactic& t) { t.bodies[0].pop_back(); }, "another number of tactics than layers");
  expect_refused([](Tactic& t) { t.bodies[0][0].outputs[0].dtype = DType::Float64; }, "has another type for");
  expect_refused([](Tactic& t) { t.bodies[0][0].is_view = true; }, "cannot be a view");
}

}  // namespace
}  // namespace lathe
