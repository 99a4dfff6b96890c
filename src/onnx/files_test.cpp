// SPDX-License-Identifier: Apache-2.0
//
// Files as tools write them: nodes in any order, parts that nothing needs, operators of other domains.
#include <gtest/gtest.h>

#include "onnx/import.h"
#include "onnx/test_model.h"
#include "ops/interpreter.h"

namespace lathe::onnx {
namespace {

constexpr int kFloat = 1, kBool = 9;

struct Notes final : Observer {
  std::string text;
  void on(const Event& event) override {
    if (const auto* log = std::get_if<Message>(&event)) text += log->text + "\n";
  }
};

std::vector<double> run(const TestModel& model, const std::vector<Tensor>& inputs, Notes* notes = nullptr) {
  Notes own;
  const std::string bytes = model.bytes();
  const ImportedModel imported = import_onnx(as_bytes(bytes), {}, notes ? *notes : own);
  return interpret(imported.graph, inputs).at(0).to_doubles();
}

std::string import_error(const TestModel& model) {
  try {
    run(model, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "no error";
}

void expect_says(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

using Numbers = std::vector<double>;
const Tensor kOneTwo = Tensor::from<float>({2}, {1, -2});

TEST(Files, NodesAreSorted) {
  TestModel m;
  m.input("x", kFloat, {"2"}).output("y");
  m.node("Add", {"b", "a"}, {"y"}).node("Relu", {"a"}, {"b"}).node("Neg", {"x"}, {"a"});
  Notes notes;
  EXPECT_EQ(run(m, {kOneTwo}, &notes), (Numbers{-1, 4}));
  expect_says(notes.text, "The nodes of the model are not in topological order: they were sorted.");
}

TEST(Files, NodesInOrderStayAsTheyAre) {
  TestModel m;
  m.input("x", kFloat, {"2"}).output("y").node("Neg", {"x"}, {"a"}).node("Relu", {"a"}, {"y"});
  Notes notes;
  run(m, {kOneTwo}, &notes);
  EXPECT_EQ(notes.text.find("sorted"), std::string::npos);
}

// The body reads a value of the graph around it, which a later node makes.
TEST(Files, NodesAreSortedByWhatBodiesRead) {
  TestModel branch;
  branch.output("r").node("Relu", {"a"}, {"r"});
  TestModel m;
  m.input("x", kFloat, {"2"}).constant<uint8_t>("yes", kBool, {}, {1}).output("y");
  m.node("If", {"yes"}, {"y"},
         {TestModel::graph_attribute("then_branch", branch.graph()),
          TestModel::graph_attribute("else_branch", branch.graph())});
  m.node("Neg", {"x"}, {"a"});
  EXPECT_EQ(run(m, {kOneTwo}), (Numbers{0, 2}));
}

TEST(Files, DeadNodesVanishBeforeTheyAreJudged) {
  TestModel m;
  m.input("x", kFloat, {"2"}).output("y");
  m.node("Foo", {"x"}, {"a"}, {}, "my.domain").node("Relu", {"a"}, {"b"}).node("Neg", {"x"}, {"y"});
  Notes notes;
  EXPECT_EQ(run(m, {kOneTwo}, &notes), (Numbers{-1, 2}));
  expect_says(notes.text, "No output needs node Foo_of_a: it is left out");
}

TEST(Files, NodesBehindUnsupportedOnesAreJudged) {
  TestModel branch;
  branch.output("r").node("Baz", {"a"}, {"r"}, {}, "my.domain");
  TestModel m;
  m.input("x", kFloat, {"2"}).output("y");
  m.node("Foo", {"x"}, {"a"}, {}, "my.domain").node("Relu", {"a"}, {"b"});
  m.node("Bar", {"b"}, {"c"}, {}, "my.domain").node("Foo", {"c"}, {"d"}, {}, "my.domain");
  m.node("If", {"d"}, {"y"},
         {TestModel::graph_attribute("then_branch", branch.graph()),
          TestModel::graph_attribute("else_branch", branch.graph())});
  const std::string error = import_error(m);
  expect_says(error, "5 nodes of the model are not supported");
  expect_says(error,
              "\n  Foo_of_a and 1 more (Foo): there is no function 'Foo' of domain 'my.domain' in the model");
  expect_says(error, "\n  Bar_of_c (Bar)");
  expect_says(error, "\n  If_of_y/Baz_of_r and 1 more (Baz)");
}

std::string unknown(std::string_view op, std::string_view domain) {
  TestModel m;
  m.input("x", kFloat, {"2"}).output("y").node(op, {"x"}, {"y"}, {}, domain);
  return import_error(m);
}

TEST(Files, AdviceFitsTheDomain) {
  expect_says(unknown("QThing", "com.microsoft"), "quantize the model with QuantFormat.QDQ");
  expect_says(unknown("BeamSearch", "com.microsoft"), "graph optimizations of level 'basic'");
  expect_says(unknown("Conv", "com.microsoft.nchwc"), "level 'extended' instead of 'all'");
  expect_says(unknown("Foo", "ai.onnx.ml"), "docs/operators.md lists those of ai.onnx.ml that are");
  expect_says(unknown("Adam", "ai.onnx.preview.training"), "it is for training");
  expect_says(unknown("ATen", "org.pytorch.aten"), "export with dynamo=True");
  expect_says(unknown("TRT_Foo", "trt.plugins"), "a plugin of TensorRT");
  expect_says(unknown("Foo", "x.y"), "export the model without custom operators, or with their functions");
}

}  // namespace
}  // namespace lathe::onnx
