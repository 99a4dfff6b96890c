// SPDX-License-Identifier: Apache-2.0
//
// An engine file has each weight once: what passes made of the model's weights, and what tactics packed, is
// made again at load, to the bit.
#include <gtest/gtest.h>

#include "backend/all.h"
#include "base/error.h"
#include "builder/builder.h"
#include "ir/text.h"
#include "ops/interpreter.h"
#include "ops/make_constants.h"
#include "reference/random_input.h"

namespace lathe {
namespace {

// Batch norm folds into a convolution (scaled weights); q and k become one product (a stack); the columns of
// %both go separate ways (slices); the last weights are transposed and quantised in the model.
constexpr const char* kLargeModel = R"(graph "large" {
  input %x: float32[n, 64, 8, 8]
  const %w: float32[64, 64, 3, 3] = random 1
  const %gamma: float32[64] = random 2
  const %beta: float32[64] = random 3
  const %mean: float32[64] = random 4
  const %var: float32[64] = splat 0.5
  const %wq: float32[64, 512] = random 5
  const %wk: float32[64, 512] = random 6
  const %both: float32[512, 1024] = random 7
  const %last: int8[96, 512] = random 8
  const %step: float32[] = [0.02]
  %c: float32[n, 64, 8, 8] = Conv "conv" (%x, %w) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]} from ["conv" Conv]
  %b: float32[n, 64, 8, 8] = BatchNorm "bn" (%c, %gamma, %beta, %mean, %var) from ["bn" BatchNormalization]
  %r: float32[n, 64, 8, 8] = Pointwise "relu" (%b) {code=Relu} from ["relu" Relu]
  %f: float32[n, 64, 64] = Reshape "flatten" (%r) {shape=[n, 64, 64]} from ["flatten" Reshape]
  %q: float32[n, 64, 512] = MatMul "q" (%f, %wq) from ["q" MatMul]
  %k: float32[n, 64, 512] = MatMul "k" (%f, %wk) from ["k" MatMul]
  %s: float32[n, 64, 512] = Pointwise "sum" (%q, %k) {code=Add} from ["sum" Add]
  %p: float32[n, 64, 1024] = MatMul "both" (%s, %both) from ["both" MatMul]
  %left: float32[n, 64, 512], %right: float32[n, 64, 512] = Split "halves" (%p) {axis=2, sizes=[512, 512]} from ["halves" Split]
  %m: float32[n, 64, 512] = Pointwise "times" (%left, %right) {code=Mul} from ["times" Mul]
  %d: float32[96, 512] = DequantizeLinear "dq" (%last, %step) {axis=1} from ["dq" DequantizeLinear]
  %t: float32[512, 96] = Transpose "turn" (%d) {perm=[1, 0]} from ["turn" Transpose]
  %y: float32[n, 64, 96] = MatMul "last" (%m, %t) from ["last" MatMul]
  output %y
})";

size_t weight_bytes(const Graph& graph) {
  size_t sum = 0;
  for (size_t v = 0; v < graph.value_count(); ++v)
    sum += graph.value(static_cast<ValueId>(v)).constant.bytes().size();
  return sum;
}

class EngineFile : public testing::Test {
 protected:
  static void SetUpTestSuite() { backend = open_backend({.threads = 2}); }
  static void TearDownTestSuite() { backend.reset(); }

  static std::shared_ptr<const Engine> build(bool fast_load = false) {
    NullObserver quiet;
    BuildOptions options{.optimization_level = 1, .fast_load = fast_load};
    options.profiles = {{.shapes = {{"x", {{1, 64, 8, 8}, {2, 64, 8, 8}, {3, 64, 8, 8}}}}, .values = {}}};
    return Builder(backend, quiet)
        .build({.graph = std::make_shared<Graph>(parse_graph(kLargeModel))}, options);
  }
  static std::vector<double> outputs(const Engine& engine) {
    std::vector<double> all;
    const auto context = engine.create_context();
    for (const int64_t n : {1, 3}) {
      const auto inputs = random_inputs(*engine.plan()->portable_graph(), {{"n", n}}, 3);
      const auto got = context->run(inputs)[0].to_doubles();
      all.insert(all.end(), got.begin(), got.end());
    }
    return all;
  }
  static std::shared_ptr<const Engine> reloaded(const Engine& engine) {
    return Engine::load(Plan::from_bytes(engine.plan()->to_bytes(), "test.engine"), backend);
  }

  inline static std::shared_ptr<const Backend> backend;
};

TEST_F(EngineFile, HasEachWeightOnce) {
  const auto engine = build();
  const size_t weights = weight_bytes(*engine->plan()->portable_graph());
  EXPECT_LE(engine->plan()->to_bytes().size(), weights + weights / 10 + 64 * 1024);
  const auto loaded = reloaded(*engine);
  EXPECT_EQ(outputs(*loaded), outputs(*engine));
  EXPECT_EQ(loaded->plan()->to_bytes(), engine->plan()->to_bytes());
}

TEST_F(EngineFile, RecipesMakeWhatPassesMade) {
  const auto engine = build();
  const Graph& built = engine->graph(0);
  const auto plan = Plan::from_bytes(engine->plan()->to_bytes(), "test.engine");
  Graph made = *plan->section(0)->variants[0].graph;
  EXPECT_TRUE(has_unmade_constants(made));
  make_constants(made, nullptr);
  int recipes = 0;
  for (size_t v = 0; v < made.value_count(); ++v) {
    const Value& value = made.value(static_cast<ValueId>(v));
    if (!value.is_constant()) continue;
    const Tensor& expected = built.value(*built.find_value(value.name)).constant;
    EXPECT_TRUE(std::ranges::equal(value.constant.bytes(), expected.bytes())) << value.name;
    recipes += value.constant.recipe() != nullptr;
  }
  EXPECT_GE(recipes, 4);  // the scaled convolution, the stack, both slices or their stack, the last weights
}

TEST_F(EngineFile, FastLoadKeepsWhatWasPacked) {
  const auto small = build(), fast = build(true);
  EXPECT_GT(fast->plan()->to_bytes().size(), small->plan()->to_bytes().size() * 3 / 2);
  const auto loaded = reloaded(*fast);
  EXPECT_TRUE(loaded->plan()->fast_load);
  EXPECT_FALSE(has_unmade_constants(*loaded->plan()->section(0)->variants[0].graph));
  EXPECT_EQ(outputs(*loaded), outputs(*fast));
  EXPECT_EQ(loaded->plan()->to_bytes(), fast->plan()->to_bytes());
}

}  // namespace
}  // namespace lathe
