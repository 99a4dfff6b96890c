// SPDX-License-Identifier: Apache-2.0
//
// Sequences and optionals as inputs and outputs of a model, and operators that give them.
#include <gtest/gtest.h>

#include "onnx/import_check.h"
#include "ops/interpreter.h"

namespace lathe::onnx {
namespace {

constexpr uint32_t kSequence = 4, kOptional = 9;

using Names = TestModel::Names;
using Lengths = std::map<std::string, int64_t, std::less<>>;
using Numbers = std::vector<double>;

ImportOptions lengths(Lengths given) {
  ImportOptions options;
  options.input_lengths = std::move(given);
  return options;
}

std::string error_of(const TestModel& model, const ImportOptions& options) {
  try {
    const ImportedGraph read(model, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "no error";
}

TEST(GraphEnds, ASequenceIsItsTensors) {
  TestModel m;
  m.list_input("x", kFloat, {"n"}).input("z", kFloat, {"2"}).output("y");
  m.node("SequenceInsert", {"x", "z"}, {"y"});
  const ImportedGraph read(m, lengths({{"x", 2}}));
  EXPECT_EQ(read.names(read.graph.inputs()), (Names{"x_0", "x_1", "z"}));
  EXPECT_EQ(read.names(read.graph.outputs()), (Names{"y_0", "y_1", "y_2"}));
  // Each has dims of its own, whatever the type calls them.
  EXPECT_NE(read.graph.value(read.graph.inputs()[0]).shape, read.graph.value(read.graph.inputs()[1]).shape);
  EXPECT_EQ(read.run({floats({1}, {1}), floats({3}, {2, 3, 4}), floats({2}, {5, 6})}),
            (std::vector<Numbers>{{1}, {2, 3, 4}, {5, 6}}));
}

TEST(GraphEnds, AnOptionalIsATensorOrNothing) {
  TestModel m(18);
  m.list_input("x", kFloat, {"2"}, {kOptional}).output("y", kBool).node("OptionalHasElement", {"x"}, {"y"});
  EXPECT_EQ(ImportedGraph(m, {}).run({floats({2}, {1, 2})}), (std::vector<Numbers>{{1}}));
  const ImportedGraph none(m, lengths({{"x", 0}}));
  EXPECT_TRUE(none.graph.inputs().empty());
  EXPECT_EQ(none.run({}), (std::vector<Numbers>{{0}}));
  TestModel list(18);
  list.list_input("x", kFloat, {"2"}, {kOptional, kSequence}).output("y");
  list.node("OptionalGetElement", {"x"}, {"y"});
  EXPECT_EQ(ImportedGraph(list, lengths({{"x", 1}})).run({floats({2}, {1, 2})}),
            (std::vector<Numbers>{{1, 2}}));
}

TEST(GraphEnds, Errors) {
  TestModel m;
  m.list_input("x", kFloat, {"n"}).output("y", kInt64).node("SequenceLength", {"x"}, {"y"});
  expect_says(error_of(m, {}),
              "input 'x' is a sequence; say how many tensors it has, as in --inputLengths=x:3");
  expect_says(error_of(m, lengths({{"x", -1}})), "said to have -1 tensors; 0 to 4096 are possible");
  expect_says(error_of(m, lengths({{"x", 1}, {"z", 1}})), "the model has no sequence or optional 'z'");
  TestModel optional(18);
  optional.list_input("x", kFloat, {"2"}, {kOptional}).output("y", kBool);
  optional.node("OptionalHasElement", {"x"}, {"y"});
  expect_says(error_of(optional, lengths({{"x", 2}})), "is an optional, which has 0 or 1 tensors, not 2");
  TestModel nested;
  nested.list_input("x", kFloat, {"n"}, {kSequence, kSequence}).output("y", kInt64);
  nested.node("SequenceLength", {"x"}, {"y"});
  expect_says(error_of(nested, lengths({{"x", 1}})), "a sequence of other things than tensors");
  TestModel map;
  map.list_input("x", kFloat, {"n"}, {5}).output("y", kInt64).node("SequenceLength", {"x"}, {"y"});
  expect_says(error_of(map, {}), "is a map or a sparse tensor");
}

TEST(GraphEnds, BranchesGiveSequences) {
  const auto branch = [](const std::string& name, const Names& elements) {
    TestModel b;
    b.node("SequenceConstruct", elements, {name}).output(name);
    return b.graph();
  };
  const auto choice = [&](const Names& otherwise) {
    TestModel m;
    m.input("c", kBool, {}).input("a", kFloat, {"2"}).input("b", kFloat, {"2"}).output("y");
    m.node("If", {"c"}, {"y"},
           {TestModel::graph_attribute("then_branch", branch("t", {"a", "b"})),
            TestModel::graph_attribute("else_branch", branch("e", otherwise))});
    return m;
  };
  const ImportedGraph read(choice({"b", "b"}), {});
  const std::vector<Tensor> inputs = {Tensor::from<bool>({}, {true}), floats({2}, {1, 2}),
                                      floats({2}, {3, 4})};
  EXPECT_EQ(read.run(inputs), (std::vector<Numbers>{{1, 2}, {3, 4}}));
  EXPECT_EQ(read.run({Tensor::from<bool>({}, {false}), inputs[1], inputs[2]}),
            (std::vector<Numbers>{{3, 4}, {3, 4}}));
  // One tensor of as many slices as the branch that is taken gives.
  const ImportedGraph shorter(choice({"b"}), {});
  EXPECT_EQ(shorter.names(shorter.graph.outputs()), (Names{"y"}));
  EXPECT_EQ(shorter.run(inputs), (std::vector<Numbers>{{1, 2, 3, 4}}));
  EXPECT_EQ(shorter.run({Tensor::from<bool>({}, {false}), inputs[1], inputs[2]}),
            (std::vector<Numbers>{{3, 4}}));
}

TEST(SequenceMap, RunsItsBodyForEachTensor) {
  TestModel body;
  body.input("p", kFloat, {"n"}).input("q", kFloat, {"1"}).node("Add", {"p", "q"}, {"r"}).output("r");
  TestModel m(17);
  m.list_input("x", kFloat, {"n"}).input("one", kFloat, {"1"}).output("y");
  m.node("SequenceMap", {"x", "one"}, {"y"}, {TestModel::graph_attribute("body", body.graph())});
  EXPECT_EQ(
      ImportedGraph(m, lengths({{"x", 2}})).run({floats({1}, {1}), floats({2}, {2, 3}), floats({1}, {10})}),
      (std::vector<Numbers>{{11}, {12, 13}}));
  TestModel two(17);
  two.list_input("x", kFloat, {"n"}).list_input("z", kFloat, {"n"}).output("y");
  two.node("SequenceMap", {"x", "z"}, {"y"}, {TestModel::graph_attribute("body", body.graph())});
  expect_says(error_of(two, lengths({{"x", 2}, {"z", 1}})), "its sequences have 2 and 1 tensors");
}

TEST(Scan, OfOpset8RunsOverEachItemOfABatch) {
  TestModel body(8);
  body.input("s", kFloat, {"1"}).input("v", kFloat, {"1"}).node("Add", {"s", "v"}, {"t"});
  body.node("Identity", {"t"}, {"u"}).output("t").output("u");
  const auto scan = [&](const Names& inputs, const Names& more = {}) {
    TestModel m(8);
    m.input("lengths", kInt64, {"2"}).input("first", kFloat, {"2", "1"}).input("x", kFloat, {"2", "3", "1"});
    Names attributes = {TestModel::graph_attribute("body", body.graph()),
                        TestModel::int_attribute("num_scan_inputs", 1)};
    attributes.insert(attributes.end(), more.begin(), more.end());
    return m.node("Scan", inputs, {"y", "z"}, attributes).output("y").output("z");
  };
  const std::vector<Tensor> inputs = {Tensor::from<int64_t>({2}, {3, 3}), floats({2, 1}, {0, 100}),
                                      floats({2, 3, 1}, {1, 2, 3, 4, 5, 6})};
  EXPECT_EQ(ImportedGraph(scan({"", "first", "x"}), {}).run(inputs),
            (std::vector<Numbers>{{6, 115}, {1, 3, 6, 104, 109, 115}}));
  EXPECT_EQ(ImportedGraph(scan({"", "first", "x"}, {TestModel::ints_attribute("directions", {1})}), {})
                .run(inputs)[1],
            (Numbers{3, 5, 6, 106, 111, 115}));
  expect_says(error_of(scan({"lengths", "first", "x"}), {}), "lengths of its sequences are not supported");
}

// One step of Momentum from the formulas: G + 0.5 X = 3, V = 0.9 * 10 + 0.1 * 3 = 9.3, X - 0.1 V = 3.07.
TEST(Optimisers, MomentumOfAStep) {
  const auto step = [](std::string_view mode, const Names& inputs) {
    TestModel m;
    m.input("r", kFloat, {}).input("t", kInt64, {}).input("x", kFloat, {"1"}).input("g", kFloat, {"1"});
    m.input("v", kFloat, {"1"}).opset_of("ai.onnx.preview.training", 1).output("y").output("w");
    return m.node(
        "Momentum", inputs, {"y", "w"},
        {TestModel::text_attribute("mode", mode), TestModel::float_attribute("alpha", 0.9F),
         TestModel::float_attribute("beta", 0.1F), TestModel::float_attribute("norm_coefficient", 0.5F)},
        "ai.onnx.preview.training");
  };
  const auto run = [&](std::string_view mode, int64_t t) {
    return ImportedGraph(step(mode, {"r", "t", "x", "g", "v"}), {})
        .run({Tensor::scalar_f32(0.1F), Tensor::scalar_i64(t), floats({1}, {4}), floats({1}, {1}),
              floats({1}, {10})});
  };
  EXPECT_NEAR(run("standard", 1)[0][0], 3.07, 1e-5);
  EXPECT_NEAR(run("standard", 0)[1][0], 12, 1e-5);  // the first gradient counts whole
  EXPECT_NEAR(run("nesterov", 1)[0][0], 4 - 0.1 * (3 + 0.9 * 9.3), 1e-5);
  expect_says(error_of(step("other", {"r", "t", "x", "g", "v"}), {}), "its mode is 'other'");
  expect_says(error_of(step("standard", {"r", "t", "x", "g"}), {}),
              "3 tensors for each variable, not 4 inputs");
}

}  // namespace
}  // namespace lathe::onnx
