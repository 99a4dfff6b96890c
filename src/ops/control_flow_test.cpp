// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"
#include "ops/build.h"
#include "ops/interpreter.h"
#include "ops/op_test.h"

namespace lathe {
namespace {

Graph parsed(std::string_view text) {
  Graph graph = parse_graph(text);
  verify_graph(graph);
  return graph;
}

Tensor truth(bool value) {
  return Tensor::from_doubles(DType::Bool, {}, std::vector<double>{value ? 1.0 : 0.0});
}
std::vector<float> floats_of(const Tensor& tensor) {
  const auto data = tensor.data<float>();
  return {data.begin(), data.end()};
}

// Throws what `run` throws, as text; "" when it does not.
std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr std::string_view kChoice = R"(graph "g" {
  input %c: bool[]
  input %x: float32[n]
  %y: float32[n] = If "choose" (%c, %x) {
    then_branch=graph "then" { # one way
      input %x: float32[n]
      %z: float32[n] = Pointwise "neg" (%x) {code=Neg}
      output %z
    },
    else_branch=graph "else" {
      input %x: float32[n]
      const %two: float32[] = [2]
      %z: float32[n] = Pointwise "double" (%x, %two) {code=Mul}
      output %z
    }}
  output %y
}
)";

// Repeats x = concat(x, [i]) while i < limit; gives x and the squares of the iterations.
constexpr std::string_view kGrowing = R"(graph "g" {
  input %count: int64[]
  input %x: float32[n]
  input %step: float32[1]
  %y: float32[loop.output0.dim0<=2147483647], %s: float32[loop.output1.dim0<=2147483647, 1] = Loop "loop" (%count, _, %x, %step) {
    body=graph "body" {
      input %i: int64[]
      input %go: bool[]
      input %x: float32[loop.carried0.dim0]
      input %step: float32[1]
      %next: float32[loop.carried0.dim0 + 1] = Concat "grow" (%x, %step) {axis=0}
      %f: float32[] = Cast "float" (%i) {to=float32}
      %square: float32[1] = Pointwise "square" (%f, %step) {code=Mul}
      %on: bool[] = Pointwise "same" (%go) {code=Identity}
      output %on
      output %next
      output %square
    }, carried=1}
  output %y
  output %s
}
)";

TEST(If, RunsTheBranchThatTheConditionSelects) {
  const Graph graph = parsed(kChoice);
  const std::vector<Tensor> yes = {truth(true), f32s({3}, {1, -2, 3})}, no = {truth(false), yes[1]};
  EXPECT_EQ(floats_of(interpret(graph, yes)[0]), (std::vector<float>{-1, 2, -3}));
  EXPECT_EQ(floats_of(interpret(graph, no)[0]), (std::vector<float>{2, -4, 6}));
}

TEST(If, KeepsItsBodiesInTheText) {
  const Graph graph = parsed(kChoice);
  const std::string text = to_text(graph);
  EXPECT_EQ(to_text(parse_graph(text)), text);
  EXPECT_NE(text.find("Pointwise \"double\""), std::string::npos);
}

TEST(If, RefusesACapturedValueOfAnotherType) {
  std::string text(kChoice);
  text.replace(text.find("input %x: float32[n]"), 20, "input %x: float32[n, 2]");
  EXPECT_NE(error_of([&] {
              infer_shapes(*std::make_unique<Graph>(parse_graph(text)));
            }).find("captured value 'x' is float32[n, 2], but the body takes float32[n] as 'x'"),
            std::string::npos);
}

TEST(If, RefusesBranchesOfDifferentTypes) {
  std::string text(kChoice);
  text.replace(text.find("%z: float32[n] = Pointwise \"neg\" (%x) {code=Neg}"), 48,
               "%z: int64[n] = Cast \"neg\" (%x) {to=int64}        ");
  EXPECT_NE(error_of([&] {
              infer_shapes(*std::make_unique<Graph>(parse_graph(text)));
            }).find("is int64[n] in one branch and float32[n] in the other"),
            std::string::npos);
}

TEST(Loop, CarriesValuesThatGrowAndStacksWhatItScans) {
  const Graph graph = parsed(kGrowing);
  const std::vector<Tensor> inputs = {Tensor::scalar_i64(3), f32s({2}, {7, 8}), f32s({1}, {2})};
  const std::vector<Tensor> outputs = interpret(graph, inputs);
  EXPECT_EQ(floats_of(outputs[0]), (std::vector<float>{7, 8, 2, 2, 2}));
  EXPECT_EQ(outputs[1].extents(), (Extents{3, 1}));
  EXPECT_EQ(floats_of(outputs[1]), (std::vector<float>{0, 2, 4}));
}

TEST(Loop, WithoutAnIterationGivesWhatItWasGiven) {
  const Graph graph = parsed(kGrowing);
  const std::vector<Tensor> inputs = {Tensor::scalar_i64(0), f32s({2}, {7, 8}), f32s({1}, {2})};
  const std::vector<Tensor> outputs = interpret(graph, inputs);
  EXPECT_EQ(floats_of(outputs[0]), (std::vector<float>{7, 8}));
  EXPECT_EQ(outputs[1].extents(), (Extents{0, 1}));
}

// Behind the trip count nothing: no condition, no carried and no captured value. Absent operands at the end
// are left out.
TEST(Loop, MayHaveATripCountAlone) {
  const Graph graph = parsed(R"(graph "g" {
  input %count: int64[]
  %s: int64[loop.output0.dim0<=2147483647] = Loop "loop" (%count) {
    body=graph "body" {
      input %i: int64[]
      input %go: bool[]
      %on: bool[] = Pointwise "same" (%go) {code=Identity}
      %next: int64[] = Pointwise "twice" (%i, %i) {code=Add}
      output %on
      output %next
    }}
  output %s
}
)");
  const std::vector<Tensor> inputs = {Tensor::scalar_i64(3)};
  EXPECT_EQ(interpret(graph, inputs)[0].to_int64s(), (std::vector<int64_t>{0, 2, 4}));
}

// Running sums along axis 1, read from its end, written from the front.
TEST(Scan, ReadsBackwardsAlongAnAxis) {
  const Graph graph = parsed(R"(graph "g" {
  input %s: float32[2]
  input %x: float32[2, 3]
  %end: float32[2], %sums: float32[2, 3] = Scan "scan" (%s, %x) {
    body=graph "body" {
      input %s: float32[2]
      input %x: float32[2]
      %sum: float32[2] = Pointwise "add" (%s, %x) {code=Add}
      %copy: float32[2] = Pointwise "copy" (%sum) {code=Identity}
      output %sum
      output %copy
    }, states=1, input_axes=[1], output_axes=[1], input_reversed=[1], output_reversed=[0]}
  output %end
  output %sums
}
)");
  const std::vector<Tensor> inputs = {f32s({2}, {0, 10}), f32s({2, 3}, {1, 2, 3, 4, 5, 6})};
  const std::vector<Tensor> outputs = interpret(graph, inputs);
  EXPECT_EQ(floats_of(outputs[0]), (std::vector<float>{6, 25}));
  EXPECT_EQ(floats_of(outputs[1]), (std::vector<float>{3, 5, 6, 16, 21, 25}));
}

// Bodies in each other, each of which is an If without a captured value.
std::string nested(int depth) {
  if (depth == 0)
    return "graph \"\" { const %k: bool[] = [1] %z: bool[] = Pointwise \"id\" (%k) {code=Identity} output %z "
           "}";
  const std::string inner = nested(depth - 1);
  return "graph \"\" { const %k: bool[] = [1] %z: bool[] = If \"if\" (%k) {then_branch=" + inner +
         ", else_branch=graph \"\" { const %k: bool[] = [1] %z: bool[] = Pointwise \"id\" (%k) "
         "{code=Identity} output %z }} output %z }";
}

TEST(Bodies, LieInEachOtherThirtyTwoDeepAtMost) {
  EXPECT_EQ(interpret(parsed(nested(20)), {}).size(), 1u);
  EXPECT_NE(error_of([] { parse_graph(nested(100)); }).find("bodies lie in each other deeper than 32"),
            std::string::npos);
}

TEST(Bodies, EqualWhenTheySayTheSame) {
  const Graph a = parsed(kChoice), b = parsed(kChoice);
  EXPECT_TRUE(a.node(a.order()[0]).op == b.node(b.order()[0]).op);
  std::string other(kChoice);
  other.replace(other.find("= [2]"), 5, "= [3]");
  const Graph c = parsed(other);
  EXPECT_FALSE(a.node(a.order()[0]).op == c.node(c.order()[0]).op);
}

}  // namespace
}  // namespace lathe
