// SPDX-License-Identifier: Apache-2.0
//
// Sequences whose lengths or positions only a run finds and whose tensors differ in shape. (Against ONNX
// Runtime: tests/control_flow/sequences.py.)
#include "onnx/ragged_sequence.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "onnx/import_check.h"

namespace lathe::onnx {
namespace {

using Names = TestModel::Names;
using Numbers = std::vector<double>;

Tensor place(int64_t value) {
  return Tensor::scalar_i64(value);
}

Tensor numbers(const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// A model of a sequence "s" of a (n, 2) and b (m, 2).
TestModel of_two(const Names& other = {"m", "2"}, int dtype = kFloat) {
  TestModel m;
  m.input("a", kFloat, {"n", "2"}).input("b", dtype, other).input("i", kInt64, {}).output("y");
  return m.node("SequenceConstruct", {"a", "b"}, {"s"});
}

std::vector<Tensor> two_tensors(int64_t position) {
  return {floats({1, 2}, {1, 2}), floats({2, 2}, {3, 4, 5, 6}), place(position)};
}

// What a run says of a wrong input.
std::string run_error(const TestModel& model, const std::vector<Tensor>& inputs) {
  try {
    ImportedGraph(model).run(inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(RaggedSequence, DimsThatDifferAreLeadingOnes) {
  const auto type = [](const Shape& shape) { return type_of_tensor(DType::Float32, shape); };
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  const SequenceType first = common(type({n, 2, 4}), type({m, 2, 4}));
  EXPECT_EQ(first.leading(), (CommonDims{std::nullopt}));
  EXPECT_EQ(first.dims, (CommonDims{std::nullopt, Dim(2), Dim(4)}));
  const SequenceType second = common(type({3, n, 4}), type({3, m, 4}));
  EXPECT_EQ(second.leading(), (CommonDims{Dim(3), std::nullopt}));
  const SequenceType same = common(type({n, 4}), type({n, 4}));
  EXPECT_TRUE(same.has_one_shape());
  EXPECT_EQ(same.leading_count(), 1u);
  EXPECT_TRUE(SequenceType().is_empty());
  EXPECT_EQ(common({}, same).dims, same.dims);
  EXPECT_FALSE(common(same, type({4})).problem.empty());
  EXPECT_FALSE(common(same, type_of_tensor(DType::Int64, {n, 4})).problem.empty());
}

// Rows of what all tensors have stay in the graph's dims.
TEST(RaggedSequence, ATensorKeepsDimsInWhichAllAgree) {
  const ImportedGraph at(of_two().node("SequenceAt", {"s", "i"}, {"y"}));
  const Shape shape = at.graph.value(at.graph.outputs()[0]).shape;
  ASSERT_EQ(shape.size(), 2u);
  EXPECT_FALSE(shape[0].is_constant());
  EXPECT_EQ(shape[1], Dim(2));
  EXPECT_EQ(at.run(two_tensors(0))[0], (Numbers{1, 2}));
  EXPECT_EQ(at.run(two_tensors(1))[0], (Numbers{3, 4, 5, 6}));
  EXPECT_EQ(at.run(two_tensors(-2))[0], (Numbers{1, 2}));
}

TEST(RaggedSequence, AnOutputIsElementsAndShapes) {
  const TestModel m = of_two().node("SequenceInsert", {"s", "b", "i"}, {"y"});
  Notes notes;
  const std::string bytes = m.bytes();
  import_onnx(as_bytes(bytes), {}, notes);
  expect_says(notes.text, "output 'y.shapes' has a row for the shape of each");
  const ImportedGraph read(m);
  EXPECT_EQ(read.names(read.graph.outputs()), (Names{"y", "y.shapes"}));
  EXPECT_EQ(read.graph.value(read.graph.outputs()[0]).shape.size(), 1u);
  EXPECT_EQ(read.run(two_tensors(0)),
            (std::vector<Numbers>{{3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, {2, 2, 1, 2, 2, 2}}));
}

TEST(RaggedSequence, PositionsOutsideAreRefused) {
  for (const int64_t outside : {int64_t{4}, int64_t{-4}, INT64_MAX, INT64_MIN}) {
    expect_says(run_error(of_two().node("SequenceAt", {"s", "i"}, {"y"}), two_tensors(outside)),
                "at_place_in_sequence' (Gather): index " + std::to_string(outside) + " is outside [-2, 1]");
    expect_says(run_error(of_two().node("SequenceInsert", {"s", "b", "i"}, {"y"}), two_tensors(outside)),
                "place_in_sequence");
    expect_says(run_error(of_two().node("SequenceErase", {"s", "i"}, {"y"}), two_tensors(outside)),
                "place_in_sequence");
  }
  expect_says(run_error(of_two().node("SequenceErase", {"s", "i"}, {"y"}), two_tensors(2)),
              "place_in_sequence");
  EXPECT_EQ(ImportedGraph(of_two().node("SequenceErase", {"s", "i"}, {"y"})).run(two_tensors(-2))[0],
            (Numbers{3, 4, 5, 6}));
}

TEST(RaggedSequence, TypesAndRanksThatDifferAreNamed) {
  const std::string one_rank =
      "where only a run finds lengths or positions all have one element type and rank";
  const auto at = [](TestModel m) { return import_error(m.node("SequenceAt", {"s", "i"}, {"y"})); };
  expect_says(at(of_two({"m"})), "its sequence has tensors float32[n, 2] and float32[m]; " + one_rank);
  expect_says(at(of_two({"m", "2"}, kInt64)), "float32[n, 2] and int64[m, 2]; " + one_rank);
  TestModel inserted = of_two();
  inserted.node("SequenceInsert", {"s", "i", "i"}, {"t"}).node("SequenceLength", {"t"}, {"y"});
  expect_says(import_error(inserted), "it inserts a tensor of another type than the sequence has");
}

// Parts that a run says, and what it may not say.
TestModel split_in_parts(const Names& sizes, int64_t axis) {
  TestModel m;
  m.input("x", kFloat, {"2", "n"}).input("sizes", kInt64, sizes).output("y");
  return m.node("SplitToSequence", {"x", "sizes"}, {"y"}, {TestModel::int_attribute("axis", axis)});
}

TEST(RaggedSequence, PartsWhoseSizesARunFinds) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const TestModel columns = split_in_parts({"k"}, 1), by_one = split_in_parts({}, -1);
  const ImportedGraph read(columns), equal(by_one);
  EXPECT_EQ(read.run({x, numbers({2, 1})}), (std::vector<Numbers>{{1, 2, 4, 5, 3, 6}, {2, 2, 2, 1}}));
  EXPECT_EQ(read.run({x, numbers({0, 3, 0})}),
            (std::vector<Numbers>{{1, 2, 3, 4, 5, 6}, {2, 0, 2, 3, 2, 0}}));
  EXPECT_EQ(equal.run({x, place(2)}), (std::vector<Numbers>{{1, 2, 4, 5, 3, 6}, {2, 2, 2, 1}}));
  EXPECT_EQ(equal.run({x, place(9)}), (std::vector<Numbers>{{1, 2, 3, 4, 5, 6}, {2, 3}}));
  EXPECT_EQ(equal.run({x, place(INT64_MAX)}), equal.run({x, place(9)}));
  for (const auto& wrong : {numbers({2, 2}), numbers({1}), numbers({4, -1}), numbers({})})
    expect_says(run_error(columns, {x, wrong}), "sizes_that_add_up_to_the_dim");
  expect_says(run_error(by_one, {x, place(0)}), "size_of_parts_above_0");
  expect_says(run_error(by_one, {x, place(-2)}), "size_of_parts_above_0");
}

TEST(RaggedSequence, PartsOfOneSizeNeedNotDivideTheDim) {
  for (const int64_t size : {int64_t{2}, INT64_MAX}) {
    TestModel m;
    m.input("x", kFloat, {"n"}).output("y").constant<int64_t>("size", kInt64, {}, {size});
    m.node("SplitToSequence", {"x", "size"}, {"y"});
    const ImportedGraph read(m);
    EXPECT_EQ(read.run({floats({3}, {1, 2, 3})})[1], size == 2 ? (Numbers{2, 1}) : (Numbers{3}));
    EXPECT_EQ(read.run({floats({0}, {})})[1], Numbers{});
  }
}

TEST(RaggedSequence, ANewAxisNeedsOneShape) {
  TestModel m;
  m.input("x", kFloat, {"n", "2"}).input("sizes", kInt64, {"k"}).output("y");
  m.node("SplitToSequence", {"x", "sizes"}, {"s"});
  m.node("ConcatFromSequence", {"s"}, {"y"},
         {TestModel::int_attribute("axis", 1), TestModel::int_attribute("new_axis", 1)});
  const Tensor x = floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(ImportedGraph(m).run({x, numbers({2, 2})})[0], (Numbers{1, 2, 5, 6, 3, 4, 7, 8}));
  expect_says(run_error(m, {x, numbers({1, 3})}), "tensors_of_one_shape");
  expect_says(run_error(m, {floats({0, 2}, {}), numbers({})}), "first_of_sequence");
}

// A body whose tensors have another rank than those of the loop before it.
TEST(RaggedSequence, ALoopKeepsTheRank) {
  TestModel body;
  body.input("k", kInt64, {}).input("on", kBool, {}).list_input("s", kFloat, {""});
  body.output("still", kBool).output("next").node("Identity", {"on"}, {"still"}).ints("flat", {-1});
  body.node("Reshape", {"a", "flat"}, {"one"}).node("SequenceInsert", {"s", "one"}, {"next"});
  TestModel m = of_two();
  m.node("Loop", {"i", "", "s"}, {"t"}, {TestModel::graph_attribute("body", body.graph())});
  m.node("ConcatFromSequence", {"t"}, {"y"}, {TestModel::int_attribute("axis", 0)});
  expect_says(import_error(m), "all have one element type and rank");
}

// Bodies that lie in one another, each of which inserts another shape than it finds: each is imported again
// when that is known, and were those in it imported as often, this would take days.
std::string growing_body(int depth) {
  const std::string d = std::to_string(depth), s = "s" + d, t = "t" + d;
  TestModel body;
  body.input("i" + d, kInt64, {}).input("on" + d, kBool, {}).list_input(s, kFloat, {""});
  body.output("still" + d, kBool).output(t).node("Identity", {"on" + d}, {"still" + d});
  const Names along = {TestModel::int_attribute("axis", 0)};
  if (depth == 0)
    return body.node("Concat", {"x", "x"}, {"c"}, along).node("SequenceInsert", {s, "c"}, {t}).graph();
  body.node("SequenceConstruct", {"x"}, {"e" + d});
  body.node("Loop", {"n", "", "e" + d}, {"u" + d},
            {TestModel::graph_attribute("body", growing_body(depth - 1))});
  body.node("ConcatFromSequence", {"u" + d}, {"a" + d}, along);
  return body.node("SequenceInsert", {s, "a" + d}, {t}).graph();
}

TEST(RaggedSequence, LoopsInLoopsAreImportedAFewTimes) {
  TestModel m;
  m.input("n", kInt64, {}).input("x", kFloat, {"2"}).output("y").node("SequenceConstruct", {"x"}, {"e"});
  m.node("Loop", {"n", "", "e"}, {"u"}, {TestModel::graph_attribute("body", growing_body(20))});
  m.node("ConcatFromSequence", {"u"}, {"y"}, {TestModel::int_attribute("axis", 0)});
  EXPECT_EQ(ImportedGraph(m).run({place(1), floats({2}, {7, 8})})[0].size(), 2u * 23);
}

}  // namespace
}  // namespace lathe::onnx
