// SPDX-License-Identifier: Apache-2.0
#include "backend/view.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace lathe {
namespace {

// The view tactic of a graph's first node.
Tactic only_view(const Graph& graph, int64_t alignment_bytes) {
  const SymbolRanges ranges;
  const auto tactics = list_views({graph, graph.order()[0], ranges}, {.alignment_bytes = alignment_bytes});
  EXPECT_EQ(tactics.size(), 1u);
  return tactics.at(0);
}

TEST(View, RefusesPiecesAtOddAddresses) {
  const Graph odd = parse_graph(R"(graph "g" {
  input %x: float32[4, 3]
  %y: float32[2, 3] = Slice "slice" (%x) {starts=[1], ends=[3], axes=[0], steps=[1]}
  output %y
})");
  EXPECT_TRUE(only_view(odd, 1).support.ok);
  EXPECT_FALSE(only_view(odd, 16).support.ok);
}

}  // namespace
}  // namespace lathe
