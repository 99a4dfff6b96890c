// SPDX-License-Identifier: Apache-2.0
//
// What FlexAttention computes is compared by ONNX's node tests; here: where its graphs go, and what they may
// not be.
#include <gtest/gtest.h>

#include <algorithm>

#include "onnx/import_check.h"

namespace lathe::onnx {
namespace {

TestModel flexible(const TestModel& modifier) {
  TestModel m;
  m.input("q", kFloat, {"2", "4", "3", "8"}).input("k", kFloat, {"2", "2", "5", "8"});
  m.input("v", kFloat, {"2", "2", "5", "6"}).output("y");
  m.node("FlexAttention", {"q", "k", "v"}, {"y"}, {TestModel::graph_attribute("score_mod", modifier.graph())},
         "ai.onnx.preview");
  return m;
}

TEST(ImportFlexAttention, HasTheGraphsOfTheModelInPlace) {
  TestModel bounded;
  bounded.input("s", kFloat, {"2", "4", "3", "5"}).output("t").node("Tanh", {"s"}, {"t"});
  const Graph graph = import_graph(flexible(bounded));
  EXPECT_EQ(graph.value(graph.outputs()[0]).shape, (Shape{2, 4, 3, 6}));
  const auto is_tanh = [&](NodeId id) { return op_display_name(graph.node(id).op) == "Tanh"; };
  EXPECT_EQ(std::count_if(graph.order().begin(), graph.order().end(), is_tanh), 1);
}

TEST(ImportFlexAttention, GraphsKeepTypeAndShape) {
  TestModel summed;
  summed.input("s", kFloat, {"2", "4", "3", "5"}).output("t").node("ReduceSum", {"s"}, {"t"});
  expect_says(import_error(flexible(summed)),
              "its score_mod makes float32[1, 1, 1, 1] of float32[2, 4, 3, 5]");
}

TEST(ImportFlexAttention, GraphsTakeAndGiveOneValue) {
  TestModel two;
  two.input("s", kFloat, {"2"}).input("z", kFloat, {"2"}).output("s").output("z");
  expect_says(import_error(flexible(two)), "its score_mod takes 2 values and gives 2");
}

}  // namespace
}  // namespace lathe::onnx
