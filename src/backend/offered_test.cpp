// SPDX-License-Identifier: Apache-2.0
#include "backend/offered.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace lathe {
namespace {

TEST(Offered, NameParametersTypesViewAndPlacesMustBeThoseOfTheList) {
  const TensorType linear{DType::Float32, kLinear}, last{DType::Float32, kChannelsLast};
  Tactic fast{.runner = "Conv", .name = "fast", .inputs = {linear}, .outputs = {linear}};
  fast.params = {{"rows", 64}};
  fast.in_place_inputs = {0};
  Tactic refused = fast;
  refused.name = "refused";
  refused.support = Support::no("needs AMX");
  const std::vector<Tactic> listed = {fast, refused};
  EXPECT_TRUE(is_offered(listed, fast).ok);
  const auto reason = [&](auto change) {
    Tactic t = fast;
    change(t);
    return is_offered(listed, t).reason;
  };
  EXPECT_EQ(reason([](Tactic& t) { t.in_place_inputs = {}; }), "");
  const std::string none = "it is none of those for this layer";
  EXPECT_EQ(reason([](Tactic& t) { t.name = "other"; }), none);
  EXPECT_EQ(reason([](Tactic& t) { t.params = {{"rows", 128}}; }), none);
  EXPECT_EQ(reason([](Tactic& t) { t.params = {}; }), none);
  EXPECT_EQ(reason([&](Tactic& t) { t.inputs[0] = last; }), none);
  EXPECT_EQ(reason([](Tactic& t) { t.is_view = true; }), none);
  EXPECT_EQ(reason([](Tactic& t) { t.in_place_inputs = {0, 1}; }), none);
  EXPECT_EQ(reason([](Tactic& t) { t.name = "refused"; }), "needs AMX");
}

// The tuner saw the model's types; a final graph has those that it chose.
TEST(Offered, LayersAreAskedAboutAllTypesOfTheirTactics) {
  const Graph graph = parse_graph(R"(graph "g" {
  input %x: float32[4]
  %a: bfloat16[4] = Pointwise "a" (%x) {code=Relu} allow [bfloat16]
  %b: float32[4] = Pointwise "b" (%a) {code=Relu}
  output %b
})");
  std::vector<Choice> choices(2);
  choices[0].tactic.inputs = {{DType::Float32, kLinear}};
  choices[0].tactic.outputs = {{DType::BFloat16, kLinear}};
  choices[1].tactic.inputs = {{DType::BFloat16, kLinear}};
  choices[1].tactic.outputs = {{DType::Float32, kLinear}};
  const std::vector<Graph> graphs = graphs_to_ask(graph, choices);
  ASSERT_EQ(graphs.size(), 2u);
  for (const Graph& g : graphs) {
    EXPECT_EQ(g.node(g.order()[0]).allowed_types, (std::vector{DType::BFloat16, DType::Float32}));
    EXPECT_EQ(g.node(g.order()[1]).allowed_types, (std::vector{DType::BFloat16, DType::Float32}));
  }
  EXPECT_EQ(graphs[0].value(*graph.find_value("a")).dtype, DType::BFloat16);
  EXPECT_EQ(graphs[1].value(*graph.find_value("a")).dtype, DType::Float32);
}

}  // namespace
}  // namespace lathe
