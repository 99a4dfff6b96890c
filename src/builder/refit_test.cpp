// SPDX-License-Identifier: Apache-2.0
#include "builder/refit.h"

#include <gtest/gtest.h>

#include "backend/all.h"
#include "base/error.h"
#include "base/error_check.h"
#include "builder/builder.h"
#include "ir/text.h"
#include "ops/interpreter.h"
#include "reference/random_input.h"

namespace lathe {
namespace {

// Batch norm and bias fold into the convolution, q and k become one product, and the scale goes into the
// epilogue.
constexpr const char* kRefittedModel = R"(graph "small" {
  input %x: float32[n, 3, 8, 8]
  const %w: float32[16, 3, 3, 3] = random 1
  const %gamma: float32[16] = random 2
  const %beta: float32[16] = random 3
  const %mean: float32[16] = random 4
  const %var: float32[16] = splat 0.5
  const %wq: float32[64, 32] = random 5
  const %wk: float32[64, 32] = random 6
  const %factor: float32[] = [0.25]
  const %ones: float32[] = [1]
  %c: float32[n, 16, 8, 8] = Conv "conv" (%x, %w) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]} from ["conv" Conv]
  %b: float32[n, 16, 8, 8] = BatchNorm "bn" (%c, %gamma, %beta, %mean, %var) from ["bn" BatchNormalization]
  %r: float32[n, 16, 8, 8] = Pointwise "relu" (%b) {code=Relu} from ["relu" Relu]
  %f: float32[n, 16, 64] = Reshape "flatten" (%r) {shape=[n, 16, 64]} from ["flatten" Reshape]
  %q: float32[n, 16, 32] = MatMul "q" (%f, %wq) from ["q" MatMul]
  %k: float32[n, 16, 32] = MatMul "k" (%f, %wk) from ["k" MatMul]
  %s: float32[n, 16, 32] = Pointwise "sum" (%q, %k) {code=Add} from ["sum" Add]
  %t: float32[n, 16, 32] = Pointwise "scale" (%s, %factor) {code=Mul} from ["scale" Mul]
  %y: float32[n, 16, 32] = Pointwise "one" (%t, %ones) {code=Mul} from ["one" Mul]
  output %y
})";

Graph model() {
  return parse_graph(kRefittedModel);
}

Tensor filled(Extents extents, float first) {
  Tensor tensor = Tensor::allocate(DType::Float32, std::move(extents));
  for (float& v : tensor.mutable_data<float>()) v = first, first = first > 0.4f ? -0.4f : first + 0.013f;
  return tensor;
}

NamedWeights other_weights() {
  return {{"w", filled({16, 3, 3, 3}, 0.1f)},
          {"gamma", filled({16}, 0.2f)},
          {"mean", filled({16}, 0.3f)},
          {"wq", filled({64, 32}, 0.0f)},
          {"factor", Tensor::scalar_f32(0.5)}};
}

class RefitTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { backend = open_backend({.threads = 2}); }
  static void TearDownTestSuite() { backend.reset(); }

  std::shared_ptr<const Engine> build(int level = 1) {
    BuildOptions options{.optimization_level = level};
    options.profiles = {{.shapes = {{"x", {{1, 3, 8, 8}, {2, 3, 8, 8}, {4, 3, 8, 8}}}}, .values = {}}};
    return builder.build({.graph = std::make_shared<Graph>(model())}, options);
  }
  std::shared_ptr<const Engine> refit(const Plan& plan, const NamedWeights& weights) {
    return builder.refit(plan, std::make_shared<Graph>(with_weights(*plan.portable_graph(), weights)));
  }
  static void expect_right(const Engine& engine, const Graph& graph) {
    const auto context = engine.create_context();
    for (const int64_t n : {1, 2, 4}) {
      const auto inputs = random_inputs(graph, {{"n", n}}, 3);
      const auto expected = interpret(graph, inputs)[0].to_doubles();
      const auto got = context->run(inputs)[0].to_doubles();
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], 1e-4) << "n " << n << ", element " << i;
    }
  }
  static void expect_part(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  }

  inline static std::shared_ptr<const Backend> backend;
  NullObserver quiet;
  Builder builder{backend, quiet};
};

TEST_F(RefitTest, FoldedAndPackedWeightsAreMadeAnew) {
  const auto built = build();
  const auto engine = refit(*built->plan(), other_weights());
  const Graph expected = with_weights(model(), other_weights());
  expect_right(*built, model());
  expect_right(*engine, expected);
  EXPECT_EQ(engine->layer_names(), built->layer_names());
  expect_right(*Engine::load(Plan::from_bytes(engine->plan()->to_bytes(), "refitted"), backend), expected);
  // Back again, from a file whose weights lie in the mapping.
  const auto loaded = Plan::from_bytes(engine->plan()->to_bytes(), "refitted");
  expect_right(*builder.refit(*loaded, std::make_shared<Graph>(model())), model());
}

TEST_F(RefitTest, SameWeightsGiveTheSameFile) {
  const auto built = build();
  EXPECT_EQ(builder.refit(*built->plan(), built->plan()->portable_graph())->plan()->to_bytes(),
            built->plan()->to_bytes());
}

TEST_F(RefitTest, StrippedPlanIsNoEngineBeforeItHasWeights) {
  const auto built = build();
  const auto plan = Plan::from_bytes(built->plan()->stripped()->to_bytes(), "small.engine");
  EXPECT_TRUE(plan->is_stripped);
  for (const RefittableWeights& w : refittable_weights(*plan->portable_graph()))
    EXPECT_EQ(w.missing, element_count(w.extents) > 16) << w.name;
  expect_part(error_of([&] { Engine::load(plan, backend); }), "'small.engine' was stripped of its weights");
  expect_part(error_of([&] { builder.retarget(*plan); }), "refit it first");
  expect_part(error_of([&] {
                refit(*plan, {{"w", filled({16, 3, 3, 3}, 0.1f)}});
              }),
              "2 of them were not given: 'wq', 'wk'");
  const auto engine = builder.refit(*plan, std::make_shared<Graph>(model()));
  EXPECT_FALSE(engine->plan()->is_stripped);
  expect_right(*engine, model());
}

TEST_F(RefitTest, RefusesWhatDoesNotFit) {
  const auto built = build();
  const Plan& plan = *built->plan();
  expect_part(error_of([&] { refit(plan, {{"v", Tensor::scalar_f32(1)}}); }), "has no weights 'v'");
  expect_part(error_of([&] {
                refit(plan, {{"gamma", filled({8}, 0)}});
              }),
              "the weights 'gamma' are float32 16, float32 8 was given");
  expect_part(error_of([&] {
                refit(plan, {{"ones", Tensor::scalar_f32(2)}});
              }),
              "the new weights lead to other layers than the engine has: ");
  const Graph other = parse_graph("graph \"other\" {\n input %x: float32[n, 3, 8, 8]\n output %x\n}");
  expect_part(error_of([&] { builder.refit(plan, std::make_shared<Graph>(other)); }),
              "has other outputs than the engine's");
}

}  // namespace
}  // namespace lathe
