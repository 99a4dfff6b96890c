// SPDX-License-Identifier: Apache-2.0
//
// All passes together on random graphs: the outputs must stay what the oracle says of the graph before.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"
#include "ops/interpreter.h"
#include "passes/passes.h"
#include "reference/random_graph.h"
#include "reference/random_input.h"

namespace lathe {
namespace {

constexpr uint64_t kSeeds = 150;

// Empty when all is well.
std::string problem_of(uint64_t seed, ThreadPool& pool) {
  const Graph before = random_graph(seed, {.steps = 16});
  Graph after = before;
  NullObserver observer;
  PassContext context(observer, pool);
  try {
    run_passes(after, default_stages(), {}, context);
    const std::vector<Tensor> inputs = random_inputs(before, {{"batch", 3}}, seed);
    const std::vector<Tensor> expected = interpret(before, inputs), actual = interpret(after, inputs);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (!agrees(actual[i], expected[i])) return "output " + after.value(after.outputs()[i]).name + " changed";
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Passes, RandomGraphsKeepTheirMeaning) {
  ThreadPool pool(1);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string problem = problem_of(seed, pool);
    ASSERT_EQ(problem, "") << "seed " << seed << ":\n" << to_text(random_graph(seed, {.steps = 16}));
  }
}

}  // namespace
}  // namespace lathe
