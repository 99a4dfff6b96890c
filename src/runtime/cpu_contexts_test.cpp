// SPDX-License-Identifier: Apache-2.0
//
// Contexts of one engine on several threads, on the real CPU backend: what the thread sanitizer looks at.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "backend/all.h"
#include "base/error.h"
#include "ir/text.h"
#include "memory/memory_plan.h"
#include "runtime/engine.h"

namespace lathe {
namespace {

constexpr const char* kClassifier = R"(graph "small" {
  input %x: float32[n, 8, 12, 12]
  const %w: float32[8, 8, 3, 3] = ref 0
  const %m: float32[1152, 16] = ref 1
  %a: float32[n, 8, 12, 12] = Conv "conv" (%x, %w) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]}
  %b: float32[n, 8, 12, 12] = Pointwise "add" (%a, %x) {code=Add}
  %c: float32[n, 1152] = Reshape "flat" (%b) {shape=[n, 1152]}
  %d: float32[n, 16] = MatMul "product" (%c, %m)
  %y: float32[n, 16] = Softmax "softmax" (%d) {axis=1}
  output %y
})";

Tensor pattern(Extents extents, double scale) {
  std::vector<double> values(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = scale * std::sin(0.7 * static_cast<double>(i));
  return Tensor::from_doubles(DType::Float32, std::move(extents), values);
}

// The first supported tactic in linear formats of each layer: an engine without a tuner.
std::shared_ptr<const Engine> make_classifier(const std::shared_ptr<const Backend>& backend) {
  auto graph = std::make_shared<Graph>(parse_graph(kClassifier, [](int64_t index) {
    return index == 0 ? pattern({8, 8, 3, 3}, 0.1) : pattern({1152, 16}, 0.05);
  }));
  auto plan = std::make_shared<Plan>();
  plan->inputs = input_infos(*graph);
  plan->outputs = output_infos(*graph);
  plan->profiles = {{.shapes = {{"x", {{1, 8, 12, 12}, {2, 8, 12, 12}, {4, 8, 12, 12}}}}, .values = {}}};
  plan->set_portable_graph(graph);
  PlanVariant variant{.graph = graph, .ranges = symbol_ranges(plan->inputs, plan->profiles[0])};
  for (const NodeId id : graph->order()) {
    for (const Tactic& t : backend->tactics({*graph, id, variant.ranges})) {
      const auto linear = [](const TensorType& type) {
        return type.dtype == DType::Undefined || type == TensorType{DType::Float32, kLinear};
      };
      if (!t.support.ok || !std::all_of(t.inputs.begin(), t.inputs.end(), linear) ||
          !std::all_of(t.outputs.begin(), t.outputs.end(), linear))
        continue;
      variant.choices.push_back({t, 0});
      break;
    }
  }
  variant.memory = plan_memory(*graph, variant.choices, variant.ranges);
  variant.blobs = std::make_shared<PackedBlocks>();
  auto section =
      std::make_shared<PlanSection>(PlanSection{.target = backend->target(), .variants = {variant}});
  plan->set_section(section);
  return Engine::load(plan, backend);
}

TEST(CpuContexts, FourOnFourThreads) {
  const auto engine = make_classifier(open_backend({.threads = 2}));
  std::vector<Tensor> inputs;
  std::vector<Tensor> expected;
  for (int64_t n = 1; n <= 4; ++n) {
    inputs.push_back(pattern({n, 8, 12, 12}, 1.0 / static_cast<double>(n)));
    expected.push_back(engine->create_context()->run(std::span(&inputs.back(), 1))[0]);
    double sum = 0;
    for (const double v : expected.back().to_doubles()) sum += v;
    EXPECT_NEAR(sum, static_cast<double>(n), 1e-4);
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const auto context = engine->create_context();
      for (size_t i = 0; i < 40; ++i) {
        const size_t n = (t + i) % 4;
        const Tensor y = context->run(std::span(&inputs[n], 1))[0];
        EXPECT_TRUE(std::ranges::equal(y.bytes(), expected[n].bytes())) << "context " << t << ", run " << i;
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST(Backends, UnknownDevicesAreRefused) {
  const auto error_of = [](const std::string& device) -> std::string {
    try {
      open_backend({.device = device});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      return error.what();
    }
    return "no error";
  };
  // No machine has that many; what is said before depends on what this one lacks.
  const std::string message = error_of("999");
  EXPECT_EQ(message.rfind("device 999 is a GPU: ", 0), 0u) << message;
  EXPECT_NE(message.find("; use --device=cpu"), std::string::npos) << message;
  EXPECT_EQ(error_of("tpu"), "unknown device 'tpu'; there are: cpu, auto, and the numbers of GPUs");
}

}  // namespace
}  // namespace lathe
