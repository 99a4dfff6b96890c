// SPDX-License-Identifier: Apache-2.0
//
// What such loops compute is compared with ONNX Runtime (tests/control_flow); here: what they may not do.
#include <gtest/gtest.h>

#include "onnx/import_check.h"

namespace lathe::onnx {
namespace {

// A loop whose body adds `inserted` (inputs of SequenceInsert) to the sequence "s" that it carries.
TestModel collecting(const TestModel::Names& inserted) {
  TestModel body;
  body.input("i", kInt64, {}).input("on", kBool, {}).input("s", kFloat, {"2"});
  body.output("still", kBool).output("longer");
  body.node("Identity", {"on"}, {"still"}).node("Neg", {"x"}, {"y"}).ints("first", {0});
  body.node("SequenceInsert", inserted, {"longer"});
  TestModel m;
  m.input("n", kInt64, {}).input("x", kFloat, {"2"}).output("y");
  m.node("SequenceEmpty", {}, {"none"});
  m.node("Loop", {"n", "", "none"}, {"all"}, {TestModel::graph_attribute("body", body.graph())});
  m.node("ConcatFromSequence", {"all"}, {"y"},
         {TestModel::int_attribute("axis", 0), TestModel::int_attribute("new_axis", 1)});
  return m;
}

TEST(ImportAppendingLoop, WhatIsAppendedIsScanned) {
  const Graph graph = import_graph(collecting({"s", "y"}));
  const Shape shape = graph.value(graph.outputs()[0]).shape;
  ASSERT_EQ(shape.size(), 2u);
  EXPECT_FALSE(shape[0].is_constant());
  EXPECT_EQ(shape[1], Dim(2));
}

// Every iteration puts its tensor in front of all others.
TEST(ImportAppendingLoop, OtherPlacesMakeAnotherTensorInEachIteration) {
  const ImportedGraph read(collecting({"s", "y", "first"}), {});
  for (const int64_t count : {3, 1})
    EXPECT_EQ(read.run({Tensor::scalar_i64(count), floats({2}, {1, 2})})[0].size(),
              static_cast<size_t>(2 * count));
}

}  // namespace
}  // namespace lathe::onnx
