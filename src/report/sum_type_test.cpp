// SPDX-License-Identifier: Apache-2.0
#include "report/sum_type.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace lathe {
namespace {

DType sum_type_of(const std::string& x, const std::string& op, const Tactic& tactic = {}) {
  const Graph graph = parse_graph("graph \"g\" {\n input %x: " + x + "\n %y: " + x + " = " + op +
                                  " \"n\" (%x, %x)\n output %y\n}");
  return sum_type(graph, graph.node(graph.order()[0]), tactic);
}

TEST(SumType, FollowsWhatIsRead) {
  EXPECT_EQ(sum_type_of("float16[4, 4]", "MatMul"), DType::Float32);
  EXPECT_EQ(sum_type_of("float32[4, 4]", "MatMul"), DType::Float32);
  EXPECT_EQ(sum_type_of("float64[4, 4]", "MatMul"), DType::Float64);
  EXPECT_EQ(sum_type_of("int32[4, 4]", "MatMul"), DType::Int32);
}

TEST(SumType, NothingIsSaidOfWhatSumsNothing) {
  const std::string add = "Pointwise";
  EXPECT_EQ(sum_type_of("float32[4, 4]", add), DType::Undefined);
  EXPECT_EQ(sum_type_of("float32[4, 4]", "MatMul", {.last_resort = true}), DType::Undefined);
}

TEST(SumType, BlocksMaySumInHalf) {
  Tactic tactic;
  tactic.params = {{"arithmetic", 2}};
  const Graph graph = parse_graph(
      "graph \"g\" {\n input %x: float32[1, 8, 4, 4]\n const %w: float32[8, 1, 3, 3] = random 1\n"
      " const %p: float32[8, 8, 1, 1] = random 2\n"
      " %y: float32[1, 8, 4, 4] = DepthwiseBlock \"n\" (%x, %w, %p)\n output %y\n}");
  EXPECT_EQ(sum_type(graph, graph.node(graph.order()[0]), tactic), DType::Float16);
  EXPECT_EQ(sum_type(graph, graph.node(graph.order()[0]), {}), DType::Float32);
}

}  // namespace
}  // namespace lathe
