// SPDX-License-Identifier: Apache-2.0
//
// Files as tools write them: nodes in any order, parts that nothing needs, operators of other domains.
#include <gtest/gtest.h>

#include "onnx/import_check.h"
#include "ops/interpreter.h"

namespace lathe::onnx {
namespace {

std::vector<double> run(const TestModel& model, const std::vector<Tensor>& inputs, Notes* notes = nullptr) {
  Notes own;
  const std::string bytes = model.bytes();
  const ImportedModel imported = import_onnx(as_bytes(bytes), {}, notes ? *notes : own);
  return interpret(imported.graph, inputs).at(0).to_doubles();
}

std::string run_error(const TestModel& model) {
  try {
    run(model, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "no error";
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
  const std::string error = run_error(m);
  expect_says(error, "5 nodes of the model are not supported");
  expect_says(error,
              "\n  Foo_of_a and 1 more (Foo): there is no function 'Foo' of domain 'my.domain' in the model");
  expect_says(error, "\n  Bar_of_c (Bar)");
  expect_says(error, "\n  If_of_y/Baz_of_r and 1 more (Baz)");
}

std::string unknown(std::string_view op, std::string_view domain) {
  TestModel m;
  m.input("x", kFloat, {"2"}).output("y").node(op, {"x"}, {"y"}, {}, domain);
  return run_error(m);
}

TEST(Files, AdviceFitsTheDomain) {
  expect_says(unknown("QThing", "com.microsoft"), "quantize the model with QuantFormat.QDQ");
  expect_says(unknown("BeamSearch", "com.microsoft"), "graph optimizations of level 'basic'");
  expect_says(unknown("Conv", "com.microsoft.nchwc"), "level 'extended' instead of 'all'");
  expect_says(unknown("Foo", "ai.onnx.ml"), "docs/operators.md lists those of ai.onnx.ml that are");
  expect_says(unknown("Gradient", "ai.onnx.preview.training"), "it is for training");
  expect_says(unknown("ATen", "org.pytorch.aten"), "export with dynamo=True");
  expect_says(unknown("TRT_Foo", "trt.plugins"), "a plugin of TensorRT");
  expect_says(unknown("Foo", "x.y"), "export the model without custom operators, or with their functions");
}

std::string bytes_error(std::string_view bytes) {
  NullObserver observer;
  try {
    import_onnx(std::as_bytes(std::span(bytes.data(), bytes.size())), {}, observer);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "no error";
}

TEST(Files, OtherFormatsAreRefusedByNameWithTheWayToConvert) {
  using namespace std::string_view_literals;
  expect_says(bytes_error("\x18\0\0\0ORTM...."sv), "ONNX Runtime's own format (.ort)");
  expect_says(bytes_error("PK\x03\x04......"sv),
              "torch.onnx.export(model, inputs, 'model.onnx', dynamo=True)");
  expect_says(bytes_error("\x80\x02}q\0."sv), "a pickled object");
  expect_says(bytes_error("\x89HDF\r\n\x1a\n"sv), "an HDF5 file");
  expect_says(bytes_error("\x1c\0\0\0TFL3...."sv), "tf2onnx.convert --tflite");
  expect_says(bytes_error("GGUF\3\0\0\0"sv), "GGUF file of llama.cpp");
  expect_says(bytes_error("version https://git-lfs.github.com/spec/v1\n"sv), "git lfs pull");
  expect_says(bytes_error("\x1f\x8b\x08\0"sv), "compressed (gzip)");
  expect_says(bytes_error("<?xml version=\"1.0\"?><net>"sv), "OpenVINO (.xml)");
  expect_says(bytes_error("<!DOCTYPE html>"sv), "a web page");
  expect_says(bytes_error("\x40\0\0\0\0\0\0\0{\"w\":{}}"sv), "a file of weights (.safetensors)");
  expect_says(
      bytes_error(
          "<ir_version: 8, opset_import: [\"\" : 17]>\ng (float[2] x) => (float[2] y) { y = Relu(x) }"sv),
      "onnx.parser.parse_model");
  expect_says(bytes_error("ir_version: 8\n"sv), "format='textproto'");
  expect_says(bytes_error("{\"irVersion\": \"8\"}"sv), "format='json'");
}

// (3, 2) with 5 at [0, 1] and 7 at [2, 0].
std::string sparse(std::string_view indices_dims, const std::vector<int64_t>& indices,
                   const std::vector<int64_t>& dims = {3, 2}) {
  const std::vector<float> values = {5, 7};
  const auto raw = [](const auto& list) {
    return std::string_view(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(list[0]));
  };
  std::string t;
  put_bytes(t, 1, TestModel::make_tensor("w", kFloat, {2}, raw(values)));
  put_bytes(t, 2,
            TestModel::make_tensor(
                "", 7, indices_dims == "by dim" ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{2},
                raw(indices)));
  for (const int64_t d : dims) put_int(t, 3, d);
  return t;
}

TestModel with_sparse_initializer(const std::string& tensor) {
  TestModel m;
  m.input("x", kFloat, {"3", "2"}).output("y").node("Add", {"x", "w"}, {"y"});
  m.sparse_initializer(tensor);
  return m;
}

TEST(Files, SparseTensorsAreWrittenOut) {
  const Tensor zeros = Tensor::from<float>({3, 2}, {0, 0, 0, 0, 0, 0});
  const Numbers dense = {0, 5, 0, 0, 7, 0};
  EXPECT_EQ(run(with_sparse_initializer(sparse("by dim", {0, 1, 2, 0})), {zeros}), dense);
  EXPECT_EQ(run(with_sparse_initializer(sparse("linear", {1, 4})), {zeros}), dense);
  std::string value;
  put_bytes(value, 1, "sparse_value");
  put_bytes(value, 22, sparse("linear", {1, 4}));
  put_int(value, 20, 11);
  TestModel m;
  m.input("x", kFloat, {"3", "2"})
      .output("y")
      .node("Constant", {}, {"c"}, {value})
      .node("Add", {"x", "c"}, {"y"});
  EXPECT_EQ(run(m, {zeros}), dense);
}

TEST(Files, WrongSparseTensorsAreRefused) {
  const auto error = [](const std::string& tensor) { return run_error(with_sparse_initializer(tensor)); };
  expect_says(error(sparse("linear", {1, 6})), "sparse tensor 'w': index 6 is not below 6");
  expect_says(error(sparse("by dim", {0, 1, 3, 0})), "sparse tensor 'w': index 3 is not below 3");
  expect_says(error(sparse("linear", {1, 4}, {1 << 20, 1 << 20})), "is too large to be written out");
  expect_says(error(sparse("by dim", {0, 1, 2, 0}, {6})), "its indices 2x2 do not fit 2 values");
}

TEST(Files, AnInputThatIsAnOutputKeepsItsName) {
  TestModel m;
  m.input("x", kFloat, {"2"}).output("x").output("y").node("Neg", {"x"}, {"y"});
  Notes notes;
  const std::string bytes = m.bytes();
  const Graph graph = import_onnx(as_bytes(bytes), {}, notes).graph;
  EXPECT_EQ(graph.value(graph.inputs()[0]).name, "x");
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "x_output");
  expect_says(notes.text, "'x' is an input and an output of the model: the output is called 'x_output'.");
}

TEST(Files, NewerVersionsAreTold) {
  TestModel m(17, 99);
  m.input("x", kFloat, {"2"}).output("y").node("Neg", {"x"}, {"y"});
  Notes notes;
  run(m, {kOneTwo}, &notes);
  expect_says(notes.text,
              "The model has IR version 99, newer than 14, the newest known: what is new in it is not read.");
}

// A value of the body hides one of the same name outside, from the node on that makes it.
TEST(Files, BodiesMayHideNames) {
  TestModel branch;
  branch.output("r").node("Neg", {"a"}, {"t"}).node("Relu", {"t"}, {"r"});
  TestModel m;
  m.input("x", kFloat, {"2"}).input("c", kBool, {}).output("y");
  m.node("Neg", {"x"}, {"a"}).node("Abs", {"x"}, {"t"});
  const std::string graph = TestModel::graph_attribute("then_branch", branch.graph());
  m.node("If", {"c"}, {"z"}, {graph, TestModel::graph_attribute("else_branch", branch.graph())});
  m.node("Add", {"z", "t"}, {"y"});
  EXPECT_EQ(run(m, {kOneTwo, Tensor::from<bool>({}, {true})}), (Numbers{2, 2}));
}

TEST(Files, ShapesOfTheCommandLineGiveInputsARank) {
  TestModel m;
  m.input("x", kFloat, {"?"}).output("y").node("Neg", {"x"}, {"y"});
  TestModel bare;
  bare.input_without_shape("x", kFloat).output("y").node("Neg", {"x"}, {"y"});
  expect_says(run_error(bare), "input 'x' has no shape, not even a rank; give it one with --shapes");
  NullObserver observer;
  const std::string bytes = bare.bytes(), named = m.bytes();
  ImportOptions options{.input_shapes = {{"x", {4, 3}}}};
  const Graph graph = import_onnx(as_bytes(bytes), {}, observer, nullptr, options).graph;
  EXPECT_EQ(to_string(graph.value(graph.outputs()[0]).shape), "[4, 3]");
  options = {.input_shapes = {{"x", {4}}}};
  EXPECT_EQ(to_string(import_onnx(as_bytes(named), {}, observer, nullptr, options).graph.value(0).shape),
            "[_]");
  options.fix_shapes = true;
  EXPECT_EQ(to_string(import_onnx(as_bytes(named), {}, observer, nullptr, options).graph.value(0).shape),
            "[4]");
}

}  // namespace
}  // namespace lathe::onnx
