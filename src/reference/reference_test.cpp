// SPDX-License-Identifier: Apache-2.0
//
// Interpreter, random inputs and comparison.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/build.h"
#include "ops/evaluate_op.h"
#include "ops/interpreter.h"
#include "reference/compare.h"
#include "reference/random_input.h"

namespace lathe {
namespace {

// relu(x [n, 2*n] @ w [.., 2]) is not typed by 2*n; so: y = relu(x), z = x + y, both [n, 2*n].
struct TwoNodes {
  Graph graph;
  ValueId x, y, z;
  TwoNodes() {
    GraphEditor editor(graph);
    x = editor.add_input("x", DType::Float32, {Dim::symbol("n"), Dim(2) * Dim::symbol("n")});
    y = append_node(editor, "relu", Pointwise{PointwiseCode::Relu}, {x}, {})[0];
    z = append_node(editor, "sum", Pointwise{PointwiseCode::Add}, {x, y}, {})[0];
    editor.mark_output(z);
  }
};

TEST(Interpreter, RunsNodesInOrderAndShowsTheirValues) {
  TwoNodes g;
  std::vector<std::string> seen;
  const std::vector<Tensor> inputs = {Tensor::from<float>({1, 2}, {-1, 3})};
  const auto outputs =
      interpret(g.graph, inputs,
                {.on_value = [&](ValueId id, const Tensor&) { seen.push_back(g.graph.value(id).name); }});
  expect_near(outputs[0], {-1, 6});
  EXPECT_EQ(seen, (std::vector<std::string>{"relu_output", "sum_output"}));
}

TEST(Interpreter, InputsThatDoNotFitAreNamed) {
  TwoNodes g;
  const auto run = [&](std::vector<Tensor> inputs) { interpret(g.graph, inputs); };
  expect_input_error([&] { run({}); }, "the graph has 1 inputs, 0 were given");
  expect_input_error([&] { run({Tensor()}); }, "input 'x' is missing");
  expect_input_error([&] { run({ramp({2, 5})}); }, "with n=2, n=2, but float32 2x5 was given");
  expect_input_error([&] { run({ramp({2})}); }, "but float32 2 was given");
  expect_input_error([&] { run({Tensor::from<int32_t>({1, 2}, {1, 2})}); }, "but int32 1x2 was given");
}

TEST(Interpreter, OneSymbolHasOneValue) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId a = editor.add_input("a", DType::Float32, {Dim::symbol("n")});
  const ValueId b = editor.add_input("b", DType::Float32, {Dim::symbol("n")});
  editor.mark_output(append_node(editor, "sum", Pointwise{PointwiseCode::Add}, {a, b}, {})[0]);
  const std::vector<Tensor> inputs = {ramp({2}), ramp({3})};
  expect_input_error([&] { interpret(graph, inputs); }, "input 'b' is float32 [n] with n=2, but float32 3");
}

TEST(Interpreter, DataDependentDimsGetTheirValueFromTheResult) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Float32, {2, 3});
  const ValueId axes = editor.add_input("axes", DType::Int64, {1});
  const ValueId sum = append_node(editor, "sum", Reduce{}, {x, axes}, {})[0];
  editor.mark_output(append_node(editor, "relu", Pointwise{PointwiseCode::Relu}, {sum}, {})[0]);
  for (int64_t axis : {0, 1}) {
    const std::vector<Tensor> inputs = {ramp({2, 3}), Tensor::from<int64_t>({1}, {axis})};
    EXPECT_EQ(interpret(graph, inputs)[0].extents(), axis == 0 ? (Extents{1, 3}) : (Extents{2, 1}));
  }
}

TEST(Interpreter, DimsTakenAsEqualAreChecked) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId a = editor.add_input("a", DType::Float32, {Dim::symbol("n")});
  const ValueId b = editor.add_input("b", DType::Float32, {Dim::symbol("m")});
  editor.mark_output(append_node(editor, "sum", Pointwise{PointwiseCode::Add}, {a, b}, {})[0]);
  const std::vector<Tensor> same = {ramp({4}), ramp({4})}, one = {ramp({1}), ramp({4})};
  EXPECT_EQ(interpret(graph, same)[0].size(), 4);
  expect_input_error([&] { interpret(graph, one); },
                     "dims with different names may have been taken as equal");
}

TEST(Interpreter, ThreadsGiveTheSameNumbers) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Float32, {3, 40, 33, 31});
  RandomStream stream(1);
  std::vector<float> w(200 * 40 * 9);
  for (float& value : w) value = static_cast<float>(stream.normal());
  const ValueId weight = editor.add_constant("w", Tensor::from<float>({200, 40, 3, 3}, w));
  editor.mark_output(
      append_node(editor, "conv", Conv{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, {x, weight}, {})[0]);
  const std::vector<Tensor> inputs = random_inputs(graph, {}, 5);
  ThreadPool pool(2);
  const Tensor one = interpret(graph, inputs)[0], two = interpret(graph, inputs, {.pool = &pool})[0];
  EXPECT_EQ(compare(two, one).max_absolute, 0);
}

TEST(RandomInput, DependsOnSeedAndNameOnly) {
  const Value value{.name = "x", .dtype = DType::Float32, .shape = {Dim::symbol("n")}};
  const Tensor a = random_input(value, {{"n", 1000}}, 1), b = random_input(value, {{"n", 1000}}, 1);
  EXPECT_EQ(a.to_doubles(), b.to_doubles());
  EXPECT_NE(a.to_doubles(), random_input(value, {{"n", 1000}}, 2).to_doubles());
  double sum = 0, squares = 0;
  for (double v : a.to_doubles()) sum += v, squares += v * v;
  EXPECT_NEAR(sum / 1000, 0, 0.1);
  EXPECT_NEAR(squares / 1000, 1, 0.15);
  // The first number of the stream, once and for all machines.
  EXPECT_EQ(RandomStream(0).next(), 0xe220a8397b1dcdafu);
}

TEST(RandomInput, IntegersStayInTheirRange) {
  const Value ids{.name = "ids", .dtype = DType::Int64, .shape = {100}};
  for (int64_t v : random_input(ids, {}, 1, {{"ids", {5, 7}}}).to_int64s()) EXPECT_TRUE(v >= 5 && v <= 7);
  for (int64_t v : random_input(ids, {}, 1).to_int64s()) EXPECT_TRUE(v == 0 || v == 1);
  const Value mask{.name = "Attention_Mask", .dtype = DType::Int64, .shape = {10}};
  for (int64_t v : random_input(mask, {}, 1).to_int64s()) EXPECT_EQ(v, 1);
}

TEST(Compare, MeasuresErrors) {
  const Tensor e = Tensor::from<float>({2, 2}, {3, 4, 0, 0}),
               a = Tensor::from<float>({2, 2}, {3, 4, 0, 0.5f});
  const Comparison c = compare(a, e);
  EXPECT_DOUBLE_EQ(c.relative_l2, 0.1);
  EXPECT_DOUBLE_EQ(c.max_absolute, 0.5);
  EXPECT_EQ(c.max_relative, 0);  // the wrong element is below the floor for relative errors
  EXPECT_EQ(c.worst_index, (Extents{1, 1}));
  EXPECT_TRUE(c.within(0.1));
  EXPECT_FALSE(c.within(0.09));
  EXPECT_NE(c.to_string().find("worst at [1, 1]: 0.5 instead of 0"), std::string::npos) << c.to_string();
}

TEST(Compare, NaNAndInfinityMustMatch) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Tensor e = Tensor::from<float>({3}, {nan, inf, 1});
  EXPECT_TRUE(compare(e, e).within(0));
  const Comparison c = compare(Tensor::from<float>({3}, {nan, -inf, nan}), e);
  EXPECT_EQ(c.nan_mismatches, 1);
  EXPECT_EQ(c.infinity_mismatches, 1);
  EXPECT_FALSE(c.within(1e9));
  EXPECT_EQ(c.worst_index, (Extents{1}));
}

TEST(Compare, ShapesMustMatch) {
  const Comparison c = compare(ramp({2, 3}), ramp({3, 2}));
  EXPECT_FALSE(c.within(1e9));
  EXPECT_EQ(c.to_string(), "shape 2x3 instead of 3x2");
}

TEST(Tolerance, GrowsWithLengthAndShrinksWithPrecision) {
  EXPECT_EQ(tolerance(DType::Int32, 100), 0);
  EXPECT_LT(tolerance(DType::Float32, 1), tolerance(DType::Float32, 10000));
  EXPECT_LT(tolerance(DType::Float32, 4608), 1e-5);
  EXPECT_LT(tolerance(DType::BFloat16, 4608), 2e-2);
  EXPECT_DOUBLE_EQ(tolerance(DType::Float32, 9, 10), 10 * tolerance(DType::Float32, 9));
}

TEST(Tolerance, OfAGridIsAStepForWhatLiesAtTheMiddle) {
  const double before = 1e-6, steps = 40;
  // One element of 10,000 may always be off by one step.
  EXPECT_NEAR(tolerance_on_grid(before, {.elements = 10000, .rms = steps}), before + 0.01 / steps, 1e-6);
  // A share of all, where sums are less exact.
  EXPECT_NEAR(tolerance_on_grid(1e-3, {.elements = 10000, .rms = steps}), 1e-3 + std::sqrt(0.08) / steps,
              1e-6);
  // Numbers of which half lie on a middle: means of four integers.
  std::vector<double> numbers;
  for (int i = 0; i < 1000; ++i) numbers.push_back(0.5 * i - 250);
  const double half = std::sqrt(0.5) / steps;
  EXPECT_NEAR(tolerance_on_grid(before, {.elements = 1000, .rms = steps, .numbers = numbers}), before + half,
              1e-6);
  for (double& x : numbers) x += 0.25;  // and of which none does
  EXPECT_NEAR(tolerance_on_grid(before, {.elements = 1000, .rms = steps, .numbers = numbers}),
              before + std::sqrt(1e-3) / steps, 1e-6);
  // Never more than a step everywhere; nothing for zeros.
  EXPECT_NEAR(tolerance_on_grid(10, {.elements = 100, .rms = 0.5}), 10 + 1 / 0.5, 1e-6);
  EXPECT_EQ(tolerance_on_grid(before, {.elements = 100, .rms = 0}), before);
}

TEST(Tolerance, OfE4M3IsAStepOfTheNumbersAtTheMiddle) {
  const double before = 1e-6;
  // All numbers are 17 / 16, in the middle between 1 and 1 + 1 / 8.
  const std::vector<double> middle(100, 1.0625);
  EXPECT_NEAR(tolerance_on_e4m3(before, middle, NumbersAre::Unrounded), 0.125 / 1.0625, 1e-5);
  // None is near a middle: one element may be off all the same, by the step of the largest.
  std::vector<double> numbers(100, 1.0);
  EXPECT_NEAR(tolerance_on_e4m3(before, numbers, NumbersAre::Unrounded), 0.1 * 0.125, 1e-5);
  numbers[7] = 20;  // its step is 2
  EXPECT_NEAR(tolerance_on_e4m3(before, numbers, NumbersAre::Unrounded), 2 / std::sqrt(499.0), 1e-5);
  // Numbers off by a hundredth: where they lay is not known, 0.16 of the steps is within reach.
  const std::vector<double> ones(10000, 1.0);
  EXPECT_NEAR(tolerance_on_e4m3(0.01, ones, NumbersAre::Rounded), 0.01 + std::sqrt(0.16) * 0.125, 1e-5);
  // Steps below the least normal number are all 2^-9; what saturates has the step of 448.
  const std::vector<double> tiny(4, 0x1p-8);
  EXPECT_NEAR(tolerance_on_e4m3(before, tiny, NumbersAre::Unrounded), 0.25, 1e-5);
  EXPECT_NEAR(tolerance_on_e4m3(before, std::vector<double>{1e9}, NumbersAre::Unrounded), 32.0 / 448, 1e-5);
  EXPECT_EQ(tolerance_on_e4m3(before, std::vector<double>(3, 0.0), NumbersAre::Rounded), before);
}

TEST(Tolerance, ReductionLengthOfOperators) {
  const auto length = [](Op op, const std::vector<Extents>& inputs) {
    Node node;
    node.op = std::move(op);
    return reduction_length(node, inputs);
  };
  EXPECT_EQ(length(Conv{}, {{1, 8, 5, 5}, {16, 4, 3, 3}}), 36);
  EXPECT_EQ(length(ConvTranspose{}, {{1, 8, 5, 5}, {8, 4, 3, 3}}), 72);
  EXPECT_EQ(length(MatMul{}, {{2, 3, 7}, {7, 4}}), 7);
  EXPECT_EQ(length(MatMul{true}, {{2, 3, 7}, {3, 4}}), 3);
  EXPECT_EQ(length(Softmax{1}, {{2, 3, 7}}), 3);
  EXPECT_EQ(length(Reduce{ReduceKind::Sum, Ints{0, -1}}, {{2, 3, 7}}), 14);
  EXPECT_EQ(length(LayerNorm{-2}, {{2, 3, 7}}), 21);
  EXPECT_EQ(length(Pointwise{}, {{2, 3}}), 1);
}

}  // namespace
}  // namespace lathe
