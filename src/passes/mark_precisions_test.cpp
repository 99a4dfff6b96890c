// SPDX-License-Identifier: Apache-2.0
//
// What a caller demands; the rules for layers of which nothing is demanded are in tests/passes.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/passes.h"

namespace lathe {
namespace {

constexpr const char* kNetwork = R"(graph "g" {
  input %x: float32[2, 4]
  const %w: float32[4, 4] = splat 0.5
  %y: float32[2, 4] = MatMul "matmul" (%x, %w) from ["matmul" MatMul]
  %e: float32[2, 4] = Pointwise "exp" (%y) {code=Exp} from ["exp" Exp]
  output %e
})";

std::vector<DType> marked(const LayerTypes& demanded, std::string_view node,
                          const std::vector<DType>& allowed = {}) {
  Graph graph = parse_graph(kNetwork);
  NullObserver quiet;
  ThreadPool pool{1};
  PassContext context(quiet, pool);
  context.allowed_types = allowed;
  context.layer_types = demanded;
  mark_precisions(graph, context);
  for (const NodeId id : graph.order())
    if (graph.node(id).name == node) return graph.node(id).allowed_types;
  return {DType::Undefined};
}

TEST(MarkPrecisions, DemandedTypesComeBeforeTheRules) {
  const LayerTypes half{{{"exp", {.compute = DType::Float16}}, {"matmul", {.compute = DType::Float32}}}};
  EXPECT_EQ(marked(half, "exp"), std::vector<DType>{DType::Float16});
  EXPECT_EQ(marked(half, "matmul", {DType::BFloat16}), std::vector<DType>{});
  EXPECT_EQ(marked({}, "matmul", {DType::BFloat16}), std::vector<DType>{DType::BFloat16});
}

TEST(MarkPrecisions, AResultsTypeIsAllowedToo) {
  const LayerTypes types{{{"matmul", {.compute = DType::BFloat16, .outputs = {DType::Float16}}}}};
  EXPECT_EQ(marked(types, "matmul"), (std::vector<DType>{DType::Float16, DType::BFloat16}));
}

}  // namespace
}  // namespace lathe
