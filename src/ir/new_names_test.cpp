// SPDX-License-Identifier: Apache-2.0
#include "ir/new_names.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lathe
