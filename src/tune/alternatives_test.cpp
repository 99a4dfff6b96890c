// SPDX-License-Identifier: Apache-2.0
#include "tune/alternatives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/fake_backend.h"
#include "base/observer.h"
#include "ir/edit.h"
#include "ir/text.h"
#include "tune/tune.h"

namespace lathe {
namespace {

constexpr const char* kParts = R"(graph "parts" {
  input %x: float32[1, 4, 4, 4]
  const %e: float32[8, 4, 1, 1] = splat 0.5
  const %w: float32[8, 1, 3, 3] = splat 0.5
  %a: float32[1, 4, 4, 4] = Pointwise "before" (%x) {code=Relu}
  %b: float32[1, 8, 4, 4] = Conv "expand" (%a, %e) {kernel=[1, 1]}
  %c: float32[1, 8, 4, 4] = Conv "window" (%b, %w) {kernel=[3, 3], pads_begin=[1, 1], pads_end=[1, 1], groups=8}
  output %c
})";

// The copy with "expand" and "window" as one layer.
Graph fused_copy(const Graph& graph) {
  Graph fused = graph;
  GraphEditor editor(fused);
  const NodeId expand = graph.order()[1], window = graph.order()[2];
  const auto &e = graph.node(expand).inputs, &w = graph.node(window).inputs;
  const ValueId none = kNoValue;
  const NodeId block = editor.add_node(
      "expand + window", DepthwiseBlock{.kernel = {3, 3}, .pads_begin = {1, 1}, .pads_end = {1, 1}},
      {e[0], e[1], none, w[1], none, none, none},
      {{.name = "t", .dtype = DType::Float32, .shape = {1, 8, 4, 4}}}, {}, window);
  editor.take_over_outputs(block, window);
  editor.remove_dead_nodes();
  return fused;
}

std::vector<std::string> chosen(const FakeBackend& backend, int level = 3, TimingCache* kept = nullptr) {
  const Graph graph = parse_graph(kParts), fused = fused_copy(graph);
  TimingCache own;
  NullObserver quiet;
  const TunedGraph tuned =
      tune_graph(graph, {}, backend, {.level = level}, kept ? *kept : own, quiet, &fused);
  std::vector<std::string> names;
  for (const Choice& choice : tuned.choices) names.push_back(choice.tactic.name);
  return names;
}

TEST(Alternatives, FindsTheParts) {
  const Graph graph = parse_graph(kParts), fused = fused_copy(graph);
  const auto found = find_alternatives(graph, fused);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].parts, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(fused.node(found[0].fused).name, "expand + window");
}

TEST(Alternatives, TheFasterOneIsTaken) {
  FakeBackend backend;
  backend.times_ms["fake_winograd"] = 5;
  // The format that the fused layer wants is the neighbour's as well.
  EXPECT_EQ(chosen(backend), (std::vector<std::string>{"fake_copy", "fake_fast", "fake_block", "fake_copy"}));
  backend.times_ms["fake_block"] = 0.9;
  EXPECT_EQ(chosen(backend),
            (std::vector<std::string>{"fake_copy", "fake_fast", "fake_fast", "fake_fast", "fake_copy"}));
}

TEST(Alternatives, ABoundaryCostsMoreThanItsLayersShow) {
  FakeBackend backend;
  backend.times_ms["fake_winograd"] = 5;
  backend.times_ms["fake_block"] = 0.82;  // its parts: 0.8
  const auto fused = [&] {
    const auto names = chosen(backend);
    return std::count(names.begin(), names.end(), "fake_block") == 1;
  };
  EXPECT_FALSE(fused());
  backend.traits.reformat_surcharge_ms = 0.03;
  EXPECT_TRUE(fused());
}

TEST(Alternatives, ReformatsCount) {
  FakeBackend backend;
  backend.fast_tactics = false;
  backend.times_ms["fake_winograd"] = 5;
  backend.times_ms["fake_block"] = 1.5;  // its parts take 2 ms, but in the neighbours' format
  EXPECT_EQ(chosen(backend),
            (std::vector<std::string>{"fake_linear", "fake_copy", "fake_block", "fake_copy"}));
  backend.times_ms["fake_copy"] = 0.4;
  EXPECT_EQ(chosen(backend), (std::vector<std::string>{"fake_linear", "fake_linear", "fake_linear"}));
}

TEST(Alternatives, NothingIsFusedWithoutTiming) {
  EXPECT_EQ(chosen(FakeBackend(), 0),
            (std::vector<std::string>{"fake_linear", "fake_linear", "fake_linear"}));
}

TEST(Alternatives, ACacheDecidesTheSame) {
  TimingCache cache;
  const auto first = chosen(FakeBackend(), 3, &cache);
  FakeBackend slow;
  slow.times_ms["fake_block"] = 99;  // not asked again
  EXPECT_EQ(chosen(slow, 3, &cache), first);
  EXPECT_EQ(slow.timings, 0);
}

TEST(Alternatives, AFusedLayerOverTheWorkspaceLimitIsNot) {
  FakeBackend backend;
  backend.scratch["fake_block"] = 1 << 20;
  const Graph graph = parse_graph(kParts), fused = fused_copy(graph);
  TimingCache cache;
  NullObserver quiet;
  const TunedGraph tuned =
      tune_graph(graph, {}, backend, {.workspace_limit_bytes = 1 << 10}, cache, quiet, &fused);
  for (const Choice& choice : tuned.choices) EXPECT_NE(choice.tactic.name, "fake_block");
}

}  // namespace
}  // namespace lathe
