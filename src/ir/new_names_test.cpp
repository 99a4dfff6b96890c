// SPDX-License-Identifier: Apache-2.0
#include "ir/new_names.h"

#include <gtest/gtest.h>

#include "ir/edit.h"
#include "ir/text.h"

namespace lathe {
namespace {

TEST(NewNames, OfResultsAndNotOfOperands) {
  const Graph graph = parse_graph(R"(graph "g" {
  input %x: float32[n, 4]
  %i: int64[2, count<=4 * n] = NonZero "NonZero" (%x)
  %t: int64[count<=4 * n, 2] = Transpose "turn" (%i) {perm=[1, 0]}
  %f: float32[count<=4 * n] = Fill "ones" () {shape=[count<=4 * n], value=1, dtype=float32}
  output %t
  output %f
})");
  const std::vector<NodeId>& order = graph.order();
  EXPECT_EQ(new_names(graph, graph.node(order[0])), std::set<std::string>{"count"});
  EXPECT_TRUE(new_names(graph, graph.node(order[1])).empty());
  EXPECT_EQ(new_names(graph, graph.node(order[2])), std::set<std::string>{"count"});
}

// The Transpose is read by nobody, and nobody reads the NonZero then; the branch of the If needs its count.
TEST(NewNames, ANodeThatFindsANameOfOthersStays) {
  for (const bool in_body : {false, true}) {
    const std::string fill =
        "%f: float32[count<=4*n] = Fill \"ones\" () {shape=[count<=4*n], value=1, dtype=float32} ";
    const std::string result =
        in_body ? "%y: float32[y.output0.dim0<=2147483647] = If \"y\" (%c) {then_branch=graph \"\" { " +
                      fill + "output %f }, else_branch=graph \"\" { const %z: float32[1] = [2] output %z }}"
                : fill;
    Graph graph = parse_graph(R"(graph "g" {
  input %x: float32[n, 4]
  input %c: bool[]
  %i: int64[2, count<=4*n] = NonZero "NonZero" (%x)
  %t: int64[count<=4*n, 2] = Transpose "turn" (%i) {perm=[1, 0]}
  )" + result + "\n  output %" +
                              (in_body ? "y" : "f") + "\n}");
    EXPECT_TRUE(is_awaited(graph, graph.order()[0]));
    EXPECT_FALSE(is_awaited(graph, graph.order()[1]));
    EXPECT_EQ(GraphEditor(graph).remove_dead_nodes(), 1);
    EXPECT_EQ(graph.node(graph.order()[0]).name, "NonZero");
  }
}

}  // namespace
}  // namespace lathe
