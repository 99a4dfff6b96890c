// SPDX-License-Identifier: Apache-2.0
#include "ops/concrete_shapes.h"

#include "base/error.h"
#include "ir/text.h"
#include "ops/op_test.h"

namespace lathe {
namespace {

// The error of the graph at these values; empty when they fit.
std::string error_at(const std::string& text, const SymbolValues& values) {
  const Graph graph = parse_graph("graph \"g\" {\n" + text + "}\n");
  try {
    check_concrete_shapes(graph, graph.order(), values);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "";
}

TEST(ConcreteShapes, OperandsMustFitEachOther) {
  const std::string add = R"(
  input %x: float32[n]
  input %z: float32[m]
  %y: float32[n] = Pointwise "add" (%x, %z) {code=Add}
  output %y
)";
  EXPECT_EQ(error_at(add, {{"n", 5}, {"m", 5}}), "");
  EXPECT_EQ(error_at(add, {{"n", 5}, {"m", 1}}), "");
  expect_says(error_at(add, {{"n", 5}, {"m", 3}}),
              "node 'add' (Add of float32[5], float32[3]): shapes [5] and [3] do not broadcast");
  expect_says(
      error_at(add, {{"n", 1}, {"m", 3}}),
      "node 'add' (Add of float32[1], float32[3]) gives [3], but the model says [1] of its result 'y'");
}

TEST(ConcreteShapes, ProductsAndReshapes) {
  const std::string product = R"(
  input %x: float32[4, n]
  input %z: float32[m, 4]
  %y: float32[4, 4] = MatMul "p" (%x, %z)
  output %y
)";
  EXPECT_EQ(error_at(product, {{"n", 3}, {"m", 3}}), "");
  expect_says(error_at(product, {{"n", 3}, {"m", 5}}), "inner dims differ: 3 and 5");
  const std::string reshape = R"(
  input %x: float32[n, 4]
  input %z: float32[m]
  %y: float32[m] = Reshape "r" (%x) {shape=[m]}
  output %y
)";
  EXPECT_EQ(error_at(reshape, {{"n", 3}, {"m", 12}}), "");
  expect_says(error_at(reshape, {{"n", 3}, {"m", 500}}), "cannot reshape [3, 4] to [500]");
}

TEST(ConcreteShapes, BoundsOfSlicesAndKnownIndices) {
  const std::string slice = R"(
  input %x: float32[n, 4]
  input %z: float32[m]
  %y: float32[m, 4] = Slice "s" (%x) {starts=[0], ends=[m], axes=[0], steps=[1]}
  output %y
)";
  EXPECT_EQ(error_at(slice, {{"n", 3}, {"m", 3}}), "");
  expect_says(error_at(slice, {{"n", 3}, {"m", 4}}),
              "the bounds 0 and 4 lie outside of axis 0, which has 3 elements");
  const std::string gather = R"(
  input %x: float32[n, 4]
  const %i: int64[] = [2]
  %y: float32[4] = Gather "g" (%x, %i)
  output %y
)";
  EXPECT_EQ(error_at(gather, {{"n", 3}}), "");
  expect_says(error_at(gather, {{"n", 2}}), "index 2 is outside [-2, 1], the range of a dim of 2");
}

TEST(ConcreteShapes, SizesThatNothingCanHave) {
  const std::string window = R"(
  input %x: float32[1, 2, h, 8]
  %y: float32[1, 2, h - 2, 6] = Pool "pool" (%x) {kernel=[3, 3], strides=[1, 1]}
  output %y
)";
  EXPECT_EQ(error_at(window, {{"h", 3}}), "");
  expect_says(error_at(window, {{"h", 1}}), "node 'pool'");
  const std::string copies = R"(
  input %x: float32[n]
  %y: float32[3000*n] = Tile "copies" (%x) {repeats=[3000]}
  output %y
)";
  EXPECT_EQ(error_at(copies, {{"n", 700000}}), "");
  expect_says(error_at(copies, {{"n", 800000}}), "dims up to 2147483647");
}

TEST(ConcreteShapes, NamesTheNodesOfTheModel) {
  const std::string fused = R"(
  input %x: float32[n]
  input %z: float32[m]
  %y: float32[n] = Pointwise "layer" (%x, %z) {code=Add} from ["first" Add, "second" Relu]
  output %y
)";
  expect_says(error_at(fused, {{"n", 5}, {"m", 3}}), "which is of the ONNX nodes 'first', 'second'");
}

// What only a run finds is left to the run.
TEST(ConcreteShapes, DataDependentDimsAreLeftOut) {
  const std::string nonzero = R"(
  input %x: float32[n]
  %y: int64[1, found.count<=n] = NonZero "found" (%x)
  output %y
)";
  EXPECT_EQ(error_at(nonzero, {{"n", 5}}), "");
}

}  // namespace
}  // namespace lathe
