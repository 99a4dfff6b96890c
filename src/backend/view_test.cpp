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

std::vector<std::pair<Format, Format>> transposed_views(const std::string& perm, const std::string& from,
                                                        const std::string& to) {
  const Graph graph = parse_graph("graph \"g\" {\n  input %x: float32[" + from + "]\n  %y: float32[" + to +
                                  "] = Transpose \"t\" (%x) {perm=[" + perm + "]}\n  output %y\n}");
  const SymbolRanges ranges;
  std::vector<std::pair<Format, Format>> formats;
  for (const Tactic& t : list_views({graph, graph.order()[0], ranges}, {.formats = {kLinear, kChannelsLast}}))
    formats.emplace_back(t.inputs[0].format, t.outputs[0].format);
  return formats;
}

TEST(View, TransposesThatChannelsLastMakesUpFor) {
  using Formats = std::vector<std::pair<Format, Format>>;
  EXPECT_EQ(transposed_views("0, 2, 3, 1", "2, 8, 5, 6", "2, 5, 6, 8"), (Formats{{kChannelsLast, kLinear}}));
  EXPECT_EQ(transposed_views("0, 3, 1, 2", "2, 5, 6, 8", "2, 8, 5, 6"), (Formats{{kLinear, kChannelsLast}}));
  EXPECT_EQ(transposed_views("0, 2, 1", "2, 8, 5", "2, 5, 8"),
            (Formats{{kChannelsLast, kLinear}, {kLinear, kChannelsLast}}));
  EXPECT_EQ(transposed_views("0, 3, 2, 1", "2, 8, 5, 6", "2, 6, 5, 8"), Formats{});
  EXPECT_EQ(transposed_views("1, 0", "8, 5", "5, 8"), Formats{});
}

TEST(View, ACacheIsNotConverted) {
  const auto formats = [](const std::string& past, const std::string& present) {
    const Graph graph = parse_graph("graph \"g\" {\n  input %past: float32[1, 1, " + past +
                                    ", 8]\n  input %x: float32[1, 1, 1, 8]\n  %y: float32[1, 1, " + present +
                                    ", 8] = Concat \"append\" (%past, %x) {axis=2}\n  output %y\n}");
    const SymbolRanges ranges = {{"p", {0, 8, 32}}};
    std::vector<Format> supported;
    for (const Tactic& t :
         list_views({graph, graph.order()[0], ranges}, {.formats = {kLinear, kChannelsLast}}))
      if (t.support.ok) supported.push_back(t.outputs[0].format);
    return supported;
  };
  EXPECT_EQ(formats("p", "p + 1"), std::vector<Format>{kLinear});
  EXPECT_EQ(formats("3", "4"), (std::vector<Format>{kLinear, kChannelsLast}));
}

}  // namespace
}  // namespace lathe
