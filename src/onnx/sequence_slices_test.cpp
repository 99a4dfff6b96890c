// SPDX-License-Identifier: Apache-2.0
//
// Sequences whose lengths or positions only a run finds. (Against ONNX Runtime: tests/control_flow.)
#include <gtest/gtest.h>

#include "base/error.h"
#include "onnx/import_check.h"

namespace lathe::onnx {
namespace {

using Names = TestModel::Names;
using Numbers = std::vector<double>;

Tensor number(int64_t value) {
  return Tensor::scalar_i64(value);
}

// A model of a sequence of the tensors a, b and c of two numbers, of which `op` makes "t".
TestModel of_three(std::string_view op, const Names& inputs, bool is_sequence = true) {
  TestModel m;
  m.input("a", kFloat, {"2"})
      .input("b", kFloat, {"2"})
      .input("c", kFloat, {"2"})
      .input("i", kInt64, {})
      .output("y");
  m.node("SequenceConstruct", {"a", "b", "c"}, {"s"}).node(op, inputs, {"t"});
  if (!is_sequence) return m.node("Identity", {"t"}, {"y"});
  return m.node("ConcatFromSequence", {"t"}, {"y"}, {TestModel::int_attribute("axis", 0)});
}

std::vector<Tensor> three(int64_t position) {
  return {floats({2}, {1, 2}), floats({2}, {3, 4}), floats({2}, {5, 6}), number(position)};
}

TEST(SequenceSlices, PositionsThatARunFinds) {
  const ImportedGraph at(of_three("SequenceAt", {"s", "i"}, false));
  EXPECT_EQ(at.run(three(1))[0], (Numbers{3, 4}));
  EXPECT_EQ(at.run(three(-1))[0], (Numbers{5, 6}));
  const ImportedGraph inserted(of_three("SequenceInsert", {"s", "b", "i"}));
  EXPECT_EQ(inserted.run(three(0))[0], (Numbers{3, 4, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(inserted.run(three(3))[0], (Numbers{1, 2, 3, 4, 5, 6, 3, 4}));
  EXPECT_EQ(inserted.run(three(-1))[0], (Numbers{1, 2, 3, 4, 3, 4, 5, 6}));
  const ImportedGraph erased(of_three("SequenceErase", {"s", "i"}));
  EXPECT_EQ(erased.run(three(0))[0], (Numbers{3, 4, 5, 6}));
  EXPECT_EQ(erased.run(three(-1))[0], (Numbers{1, 2, 3, 4}));
}

// The last, where nothing says which, of slices that only a run counts.
TEST(SequenceSlices, TheLastIsErased) {
  TestModel m;
  m.input("x", kFloat, {"n", "2"}).output("y");
  m.node("SplitToSequence", {"x"}, {"s"}, {TestModel::int_attribute("keepdims", 0)});
  m.node("SequenceErase", {"s"}, {"t"});
  m.node("ConcatFromSequence", {"t"}, {"y"}, {TestModel::int_attribute("axis", 0)});
  const ImportedGraph read(m);
  EXPECT_EQ(read.run({floats({3, 2}, {1, 2, 3, 4, 5, 6})})[0], (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(read.run({floats({1, 2}, {1, 2})})[0], Numbers{});
}

TEST(SequenceSlices, PositionsOutsideAreRefused) {
  for (const int64_t outside : {int64_t{4}, int64_t{-4}, INT64_MAX, INT64_MIN}) {
    EXPECT_THROW(ImportedGraph(of_three("SequenceAt", {"s", "i"}, false)).run(three(outside)), Error);
    EXPECT_THROW(ImportedGraph(of_three("SequenceInsert", {"s", "b", "i"})).run(three(outside)), Error);
    EXPECT_THROW(ImportedGraph(of_three("SequenceErase", {"s", "i"})).run(three(outside)), Error);
  }
  EXPECT_THROW(ImportedGraph(of_three("SequenceErase", {"s", "i"})).run(three(3)), Error);
}

TEST(SequenceSlices, AnEmptySequenceHasNoTensorToRead) {
  TestModel empty;
  empty.input("i", kInt64, {})
      .output("y")
      .node("SequenceEmpty", {}, {"s"})
      .node("SequenceAt", {"s", "i"}, {"y"});
  expect_says(import_error(empty), "nothing says of which tensors an empty sequence is");
}

TEST(SequenceSlices, PartsWhoseNumberARunFinds) {
  const auto split = [](const Names& inputs, const Names& attributes) {
    TestModel m;
    m.input("x", kFloat, {"2", "n"}).output("y");
    m.node("Concat", {"x", "x"}, {"xx"}, {TestModel::int_attribute("axis", 1)});
    m.node("SplitToSequence", inputs, {"s"}, attributes);
    return m.node("ConcatFromSequence", {"s"}, {"y"}, {TestModel::int_attribute("axis", 0)});
  };
  const Names along = {TestModel::int_attribute("axis", 1)};
  const Names rows = {TestModel::int_attribute("axis", 1), TestModel::int_attribute("keepdims", 0)};
  const std::vector<Tensor> x = {floats({2, 3}, {1, 2, 3, 4, 5, 6})};
  // Three columns, one below the other.
  EXPECT_EQ(ImportedGraph(split({"x"}, along)).run(x)[0], (Numbers{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(ImportedGraph(split({"x"}, rows)).run(x)[0], (Numbers{1, 4, 2, 5, 3, 6}));
}

// A loop that takes the first tensor out and puts its double at the end, and counts them.
TEST(SequenceSlices, ALoopCarriesThem) {
  TestModel body;
  body.input("k", kInt64, {})
      .input("on", kBool, {})
      .list_input("s", kFloat, {"2"})
      .input("count", kInt64, {});
  body.output("still", kBool).output("next").output("counted", kInt64);
  body.node("Identity", {"on"}, {"still"}).ints("zero", {0});
  body.node("SequenceAt", {"s", "zero"}, {"first"}).node("SequenceErase", {"s", "zero"}, {"rest"});
  body.node("Add", {"first", "first"}, {"twice"}).node("SequenceInsert", {"rest", "twice"}, {"next"});
  body.node("SequenceLength", {"next"}, {"length"}).node("Add", {"count", "length"}, {"counted"});
  TestModel m;
  m.input("n", kInt64, {}).input("a", kFloat, {"2"}).input("b", kFloat, {"2"}).input("start", kInt64, {});
  m.output("y").output("total", kInt64).node("SequenceConstruct", {"a", "b"}, {"s"});
  m.node("Loop", {"n", "", "s", "start"}, {"t", "total"}, {TestModel::graph_attribute("body", body.graph())});
  m.node("ConcatFromSequence", {"t"}, {"y"}, {TestModel::int_attribute("axis", 0)});
  const ImportedGraph read(m);
  const auto run = [&](int64_t n) {
    return read.run({number(n), floats({2}, {1, 2}), floats({2}, {3, 4}), number(0)});
  };
  EXPECT_EQ(run(3), (std::vector<Numbers>{{6, 8, 4, 8}, {6}}));
  EXPECT_EQ(run(0), (std::vector<Numbers>{{1, 2, 3, 4}, {0}}));
}

// The body puts each in front of an empty sequence, and reads one of the graph around it.
TEST(SequenceSlices, ALoopBeginsWithNone) {
  TestModel body;
  body.input("k", kInt64, {}).input("on", kBool, {}).list_input("s", kFloat, {"anything"});
  body.output("still", kBool).output("next").node("Identity", {"on"}, {"still"}).ints("zero", {0});
  body.node("SequenceAt", {"outer", "k"}, {"one"}).node("SequenceInsert", {"s", "one", "zero"}, {"next"});
  TestModel m;
  m.input("x", kFloat, {"n", "2"}).input("n", kInt64, {}).output("y").node("SequenceEmpty", {}, {"s"});
  m.node("SplitToSequence", {"x"}, {"outer"}, {TestModel::int_attribute("keepdims", 0)});
  m.node("Loop", {"n", "", "s"}, {"y"}, {TestModel::graph_attribute("body", body.graph())});
  Notes notes;
  const std::string bytes = m.bytes();
  import_onnx(as_bytes(bytes), {}, notes);
  expect_says(notes.text, "Output 'y' is a sequence whose length only a run finds");
  const ImportedGraph read(m);
  EXPECT_EQ(read.run({floats({3, 2}, {1, 2, 3, 4, 5, 6}), number(3)})[0], (Numbers{5, 6, 3, 4, 1, 2}));
  EXPECT_EQ(read.run({floats({3, 2}, {1, 2, 3, 4, 5, 6}), number(0)})[0], Numbers{});
}

// Bodies that lie in one another, each of which has to be imported again when it is known what changes: were
// each imported again for every way to import those around it, this would take days.
std::string nested_body(int depth, bool of_sequences) {
  const std::string d = std::to_string(depth), s = "s" + d, t = "t" + d;
  TestModel body;
  body.input("i" + d, kInt64, {}).input("on" + d, kBool, {});
  of_sequences ? body.list_input(s, kFloat, {""}) : body.input(s, kFloat, {"", "2"});
  body.output("still" + d, kBool).output(t).node("Identity", {"on" + d}, {"still" + d});
  if (depth == 0 && of_sequences) return body.node("SequenceInsert", {s, "x", "zero"}, {t}).graph();
  if (depth == 0) return body.node("Concat", {s, "x"}, {t}, {TestModel::int_attribute("axis", 0)}).graph();
  const Names inside = {TestModel::graph_attribute("body", nested_body(depth - 1, of_sequences))};
  if (!of_sequences) return body.node("Loop", {"n", "", s}, {t}, inside).graph();
  body.node("SequenceEmpty", {}, {"e" + d}).node("Loop", {"n", "", "e" + d}, {"u" + d}, inside);
  body.node("SequenceAt", {"u" + d, "zero"}, {"a" + d});
  return body.node("SequenceInsert", {s, "a" + d, "zero"}, {t}).graph();
}

TEST(SequenceSlices, LoopsInLoopsAreImportedAFewTimes) {
  const Names rows = {TestModel::graph_attribute("body", nested_body(24, false))};
  TestModel growing;
  growing.input("n", kInt64, {}).input("x", kFloat, {"3", "2"}).output("y");
  growing.node("Loop", {"n", "", "x"}, {"y"}, rows);
  EXPECT_EQ(ImportedGraph(growing).run({number(1), floats({3, 2}, {1, 2, 3, 4, 5, 6})})[0].size(), 12u);
  const Names lists = {TestModel::graph_attribute("body", nested_body(24, true))};
  TestModel inserting;
  inserting.input("n", kInt64, {}).input("x", kFloat, {"2"}).ints("zero", {0}).output("y");
  inserting.node("SequenceEmpty", {}, {"e"}).node("Loop", {"n", "", "e"}, {"u"}, lists);
  inserting.node("SequenceAt", {"u", "zero"}, {"y"});
  EXPECT_EQ(ImportedGraph(inserting).run({number(1), floats({2}, {7, 8})})[0], (Numbers{7, 8}));
}

TEST(SequenceSlices, AMapOverThem) {
  TestModel body;
  body.input("p", kFloat, {"2"}).input("q", kFloat, {"2"}).node("Mul", {"p", "q"}, {"r"}).output("r");
  TestModel m;
  m.input("x", kFloat, {"n", "2"}).input("w", kFloat, {"2"}).output("y");
  m.node("SplitToSequence", {"x"}, {"s"}, {TestModel::int_attribute("keepdims", 0)});
  m.node("SequenceMap", {"s", "w"}, {"t"}, {TestModel::graph_attribute("body", body.graph())});
  m.node("ConcatFromSequence", {"t"}, {"y"}, {TestModel::int_attribute("axis", 0)});
  EXPECT_EQ(ImportedGraph(m).run({floats({3, 2}, {1, 2, 3, 4, 5, 6}), floats({2}, {10, 1})})[0],
            (Numbers{10, 2, 30, 4, 50, 6}));
}

}  // namespace
}  // namespace lathe::onnx
