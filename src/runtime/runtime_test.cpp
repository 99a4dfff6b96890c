// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "backend/fake_backend.h"
#include "base/error.h"
#include "base/error_check.h"
#include "ir/text.h"
#include "memory/memory_plan.h"
#include "runtime/engine.h"

namespace lathe {
namespace {

// y = relu(relu(x) + 2), z = reshape(y) + reshape(y), through views, an in-place layer and a packed block.
constexpr const char* kModel = R"(graph "model" {
  input %x: float32[n, 1, 2, 2]
  const %w: float32[1, 1, 1, 1] = [2]
  %a: float32[n, 1, 2, 2] = Pointwise "first" (%x) {code=Relu}
  %b: float32[n, 1, 2, 2] = Conv "conv" (%a, %w) {kernel=[1, 1], strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0]}
  %y: float32[n, 1, 2, 2] = Pointwise "second" (%b) {code=Relu}
  %c: float32[4*n] = Reshape "flat" (%y) {shape=[4*n]}
  %z: float32[4*n] = Pointwise "sum" (%c, %c) {code=Add}
  output %y
  output %z
})";

std::shared_ptr<const Plan> make_plan(const FakeBackend& backend) {
  auto graph = std::make_shared<Graph>(parse_graph(kModel));
  auto plan = std::make_shared<Plan>();
  plan->inputs = input_infos(*graph);
  plan->outputs = output_infos(*graph);
  plan->profiles = {{.shapes = {{"x", {{1, 1, 2, 2}, {2, 1, 2, 2}, {8, 1, 2, 2}}}}, .values = {}},
                    {.shapes = {{"x", {{16, 1, 2, 2}, {16, 1, 2, 2}, {64, 1, 2, 2}}}}, .values = {}}};
  plan->fast_load = true;
  plan->set_portable_graph(graph);
  auto section = std::make_shared<PlanSection>(PlanSection{.target = backend.target()});
  for (const OptimizationProfile& profile : plan->profiles) {
    PlanVariant variant{.graph = graph, .ranges = symbol_ranges(plan->inputs, profile)};
    for (const NodeId id : graph->order())
      variant.choices.push_back({backend.tactics({*graph, id, variant.ranges})[0], 0});
    variant.memory = plan_memory(*graph, variant.choices, variant.ranges);
    variant.blobs = std::make_shared<PackedBlocks>();
    backend.compile(variant.spec());
    section->variants.push_back(std::move(variant));
  }
  plan->set_section(section);
  return Plan::from_bytes(plan->to_bytes(), "runtime_test.engine");
}

Tensor input(int64_t n, float first) {
  Tensor t = Tensor::allocate(DType::Float32, {n, 1, 2, 2});
  float value = first;
  for (float& v : t.mutable_data<float>()) v = value, value += 1;
  return t;
}

void expect_right(const Tensor& x, const std::vector<Tensor>& outputs) {
  ASSERT_EQ(outputs.size(), 2u);
  ASSERT_EQ(outputs[0].extents(), x.extents());
  ASSERT_EQ(outputs[1].extents(), Extents{x.size()});
  for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
    const float y = std::max(0.0f, x.data<float>()[i]) + 2;
    EXPECT_EQ(outputs[0].data<float>()[i], y);
    EXPECT_EQ(outputs[1].data<float>()[i], y + y);
  }
}

class Runtime : public testing::Test {
 protected:
  Runtime() : backend(std::make_shared<FakeBackend>()), engine(Engine::load(make_plan(*backend), backend)) {}
  std::shared_ptr<FakeBackend> backend;
  std::shared_ptr<const Engine> engine;
};

TEST_F(Runtime, RunsALoadedEngineWithWhatItsFileHasPacked) {
  EXPECT_EQ(backend->packed_blocks, 2);  // one per profile, when it was built
  const auto context = engine->create_context();
  for (const int64_t n : {2, 8, 1}) {
    const Tensor x = input(n, -3);
    expect_right(x, context->run(std::vector{x}));
  }
  EXPECT_EQ(engine->layer_names(), (std::vector<std::string>{"first", "conv", "second", "flat", "sum"}));
  EXPECT_GT(engine->memory_info().activation_bytes, 0);
  EXPECT_GT(engine->memory_info().file_bytes, 0);
}

TEST_F(Runtime, OtherTargetsGetTheReason) {
  const auto other = std::make_shared<FakeBackend>("another");
  EXPECT_EQ(error_of([&] { Engine::load(engine->plan(), other); }),
            "no section of the engine fits this device: the engine was made for a fake device [fake 1], this "
            "is a fake "
            "device [another]");
}

TEST_F(Runtime, ShapesAreChecked) {
  const auto context = engine->create_context();
  EXPECT_EQ(error_of([&] { context->resolve_shapes(); }),
            "input 'x' has the dynamic shape [n, 1, 2, 2], and no shape was set for it");
  EXPECT_EQ(error_of([&] {
              context->set_input_shape("x", {1, 2, 2});
            }),
            "input 'x' has shape [n, 1, 2, 2] of rank 4, but was given 1x2x2");
  EXPECT_EQ(error_of([&] {
              context->set_input_shape("x", {1, 3, 2, 2});
            }),
            "input 'x': dim 1 must be 1, but is 3");
  EXPECT_EQ(error_of([&] { context->set_input_shape("q", {1}); }),
            "the engine has no input 'q'; its inputs are: x");
  EXPECT_EQ(error_of([&] { context->set_input_values("x", {1}); }),
            "input 'x' is no shape tensor: its elements do not decide shapes");
  EXPECT_EQ(error_of([&] { context->run(std::vector{input(9, 0)}); }),
            "input 'x': dim 0 ('n') is 9, outside the optimization profile's range 1..8");
  EXPECT_EQ(error_of([&] { context->run({}); }), "the engine has 1 inputs, but was given 0");
  EXPECT_EQ(error_of([&] {
              context->run(std::vector{Tensor::allocate(DType::Int64, {1, 1, 2, 2})});
            }),
            "input 'x' has type float32, but was given int64");
  const auto fresh = engine->create_context();
  fresh->use_opt_shapes();
  EXPECT_EQ(fresh->input_extents(0), (Extents{2, 1, 2, 2}));
  EXPECT_EQ(fresh->output_bytes(1), 8 * 4);
  const Tensor x = input(8, 0);
  expect_right(x, context->run(std::vector{x}));  // errors left the context usable
}

TEST_F(Runtime, ProfilesAreSeparate) {
  const auto context = engine->create_context(1);
  const Tensor x = input(40, -7);
  expect_right(x, context->run(std::vector{x}));
  EXPECT_NE(error_of([&] { context->run(std::vector{input(2, 0)}); }), "no error");
  context->set_profile(0);
  const Tensor small = input(2, -7);
  expect_right(small, context->run(std::vector{small}));
  EXPECT_EQ(error_of([&] { engine->create_context(2); }),
            "the engine has 2 optimization profiles (0 is the first); there is no profile 2");
}

TEST_F(Runtime, RawBindingsProfilesAndHooks) {
  const auto context = engine->create_context();
  const Tensor x = input(2, -1);
  context->set_input_shape("x", {2, 1, 2, 2});
  std::vector<float> y(8), z(8);
  const std::vector<void*> bindings = {const_cast<float*>(x.data<float>().data()), y.data(), z.data()};
  const auto stream = backend->create_stream();
  context->enqueue(bindings, *stream);
  EXPECT_EQ(y[7], 8);
  EXPECT_EQ(z[7], 16);
  LayerProfiler profiler(engine->layer_names());
  context->enqueue_profiled(bindings, *stream, profiler);
  context->enqueue_profiled(bindings, *stream, profiler);
  EXPECT_EQ(profiler.runs(), 2);
  EXPECT_EQ(profiler.total_ms(1), 1.0);
  EXPECT_EQ(profiler.median_ms(1), 0.5);
  EXPECT_EQ(profiler.average_ms(3), 1.0);
  std::vector<std::string> seen;
  const ValueId b = *engine->graph().find_value("b");
  context->enqueue_observed(bindings, *stream, {.before = nullptr, .after = [&](size_t layer) {
                                                  if (layer == 1) {
                                                    EXPECT_EQ(context->execution().read(b).data<float>()[7],
                                                              8);
                                                  }
                                                  seen.push_back(engine->layer_names()[layer]);
                                                }});
  EXPECT_EQ(seen, engine->layer_names());
  EXPECT_EQ(error_of([&] { context->enqueue({}, *stream); }),
            "a run needs 3 bindings (1 inputs, then 2 outputs), but was given 0");
  const std::vector<void*> missing = {bindings[0], nullptr, bindings[2]};
  EXPECT_EQ(error_of([&] { context->enqueue(missing, *stream); }), "binding 1 is null");
}

TEST_F(Runtime, FourContextsOnFourThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const auto context = engine->create_context();
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int i = 0; i < 50; ++i) {
        const Tensor x = input(1 + static_cast<int64_t>(random() % 8), static_cast<float>(t * 100 - i));
        expect_right(x, context->run(std::vector{x}));
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST(Profiler, MedianOfEvenAndOddRuns) {
  LayerProfiler profiler({"a"});
  EXPECT_EQ(profiler.median_ms(0), 0);
  for (const double t : {3.0, 1.0, 2.0}) profiler.add_run(std::vector{t});
  EXPECT_EQ(profiler.median_ms(0), 2);
  profiler.add_run(std::vector{10.0});
  EXPECT_EQ(profiler.median_ms(0), 2.5);
  EXPECT_EQ(profiler.total_ms(), 16);
  profiler.clear();
  EXPECT_EQ(profiler.runs(), 0);
  EXPECT_THROW(profiler.add_run(std::vector{1.0, 2.0}), Error);
}

}  // namespace
}  // namespace lathe
