// SPDX-License-Identifier: Apache-2.0
#include "onnx/import.h"

#include <gtest/gtest.h>

#include <fstream>

#include "onnx/import_check.h"
#include "onnx/importers.h"
#include "ops/interpreter.h"
#include "reference/compare.h"

namespace lathe::onnx {
namespace {

ImportedModel import_model(const TestModel& model) {
  NullObserver observer;
  const std::string bytes = model.bytes();
  return import_onnx(as_bytes(bytes), {}, observer);
}

std::string output_shape(const ImportedModel& m, size_t i = 0) {
  return to_string(m.graph.value(m.graph.outputs()[i]).shape);
}

Tensor read_tensor_file(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  TensorSource source(nullptr, {});
  return source.load(parse_tensor(file->bytes()));
}

// Models with unfolded batch norms in the forms of several opsets: the oracle gives what ONNX Runtime gave.
class SmallModel : public testing::TestWithParam<const char*> {};

TEST_P(SmallModel, GivesTheRecordedOutput) {
  const std::string base = std::string("tests/models/small/") + GetParam();
  NullObserver observer;
  const ImportedModel model = import_onnx(std::filesystem::path(base + ".onnx"), observer);
  const std::vector<Tensor> inputs = {read_tensor_file(base + ".input.pb")};
  const std::vector<Tensor> outputs = interpret(model.graph, inputs);
  ASSERT_EQ(outputs.size(), 1u);
  const Comparison c = compare(outputs[0], read_tensor_file(base + ".output.pb"));
  EXPECT_TRUE(c.within(1e-5)) << c.to_string();
  EXPECT_EQ(model.graph.value(model.graph.inputs()[0]).shape[0].to_string(), "batch");
}

INSTANTIATE_TEST_SUITE_P(Opsets, SmallModel,
                         testing::Values("opset7", "opset9", "opset11", "opset13", "tiny", "recurrent"));

TEST(Import, ReportsWhatTheFileSaysOfItself) {
  struct Recorder final : Observer {
    std::vector<Event> events;
    void on(const Event& event) override {
      if (std::holds_alternative<ModelParsed>(event)) events.push_back(event);
    }
  } recorder;
  const ImportedModel model = import_onnx(std::filesystem::path("tests/models/small/tiny.onnx"), recorder);
  ASSERT_EQ(recorder.events.size(), 1u);
  const auto& info = std::get<ModelParsed>(recorder.events[0]);
  EXPECT_EQ(info.file, "tests/models/small/tiny.onnx");
  EXPECT_EQ(info.producer, "lathe-tests");
  EXPECT_EQ(info.ir_version, 8);
  EXPECT_EQ(info.opset_version, 17);
}

TEST(Import, ShapeArithmeticBecomesDims) {
  // Reshape(x, Concat(Shape(x)[0:1], [-1])): no node of it is left but the reshape.
  TestModel m;
  m.input("x", kFloat, {"batch", "seq", "64"}).ints("zero", {0}).ints("minus", {-1}).output("y");
  m.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "zero"}, {"b"});
  m.node("Concat", {"b", "minus"}, {"t"}, {TestModel::int_attribute("axis", 0)})
      .node("Reshape", {"x", "t"}, {"y"});
  const ImportedModel model = import_model(m);
  EXPECT_EQ(output_shape(model), "[batch, 64*seq]");
  EXPECT_EQ(model.graph.order().size(), 1u);
}

TEST(Import, UnnamedDimsGetNames) {
  TestModel m;
  m.input("x", kFloat, {"", "3", "-1", "a-b"}).output("y").node("Relu", {"x"}, {"y"});
  EXPECT_EQ(output_shape(import_model(m)), "[x.dim0, 3, x.dim2, a_b]");
}

TEST(Import, OutputsKeepTheirNames) {
  // One output is an input, one an initializer, one passes through Identity and appears twice.
  TestModel m;
  m.input("x", kFloat, {"2"}).ints("c", {1, 2}).output("x").output("c", kInt64).output("y").output("z");
  m.node("Relu", {"x"}, {"r"}).node("Identity", {"r"}, {"y"}).node("Identity", {"r"}, {"z"});
  const ImportedModel model = import_model(m);
  std::vector<std::string> names;
  for (const ValueId id : model.graph.outputs()) names.push_back(model.graph.value(id).name);
  EXPECT_EQ(names, (std::vector<std::string>{"x_output", "c", "y", "z"}));
}

TEST(Import, AllUnsupportedNodesAreListedAtOnce) {
  TestModel m;
  m.input("x", kFloat, {"2"}).output("y");
  m.node("Tokenizer", {"x"}, {"a"}, {}, "com.microsoft")
      .node("Relu", {"a"}, {"b"})
      .node("Foo", {"x"}, {"c"}, {}, "my.domain");
  m.node("Add", {"b", "c"}, {"y"});
  const std::string error = import_error(m);
  expect_says(error, "2 nodes of the model are not supported");
  expect_says(error, "Tokenizer_of_a");
  expect_says(error, "Foo_of_c");
  expect_says(error, "my.domain");
  EXPECT_EQ(error.find("Relu_of_b"), std::string::npos);
}

TEST(Import, OldOpsetsAreRefused) {
  TestModel m(0);
  m.input("x", kFloat, {"2"}).output("y").node("Relu", {"x"}, {"y"});
  expect_says(import_error(m), "opset 0; opsets 1 to");
}

TEST(Import, CyclesAndMissingValuesAreErrors) {
  TestModel m;
  m.input("x", kFloat, {"2"}).output("b").node("Add", {"x", "b"}, {"a"}).node("Relu", {"a"}, {"b"});
  expect_says(import_error(m), "'a' is used before anything produces it");
  expect_says(import_error(m), "Relu_of_b");
}

TEST(Import, NamesMustBeUnique) {
  TestModel m;
  m.input("x", kFloat, {"2"}).output("a").node("Relu", {"x"}, {"a"}).node("Abs", {"x"}, {"a"});
  expect_says(import_error(m), "'a' is produced twice");
  TestModel twice;
  twice.ints("c", {1}).ints("c", {2}).output("c", kInt64);
  expect_says(import_error(twice), "two initializers are called 'c'");
}

TEST(Import, AttributesHaveTypes) {
  TestModel m;
  m.input("x", kFloat, {"2", "3"})
      .output("y")
      .node("Flatten", {"x"}, {"y"}, {TestModel::ints_attribute("axis", {1})});
  expect_says(import_error(m), "attribute 'axis' is a list of ints instead of a int");
}

TEST(Import, ErrorsNameNodeOperatorAndShapes) {
  TestModel m;
  m.input("x", kFloat, {"batch", "3"}).ints("s", {-1, -1}).output("y").node("Reshape", {"x", "s"}, {"y"});
  const std::string error = import_error(m);
  expect_says(error, "node 'Reshape_of_y' (Reshape)");
  expect_says(error, "more than one dimension is -1");
  expect_says(error, "float32[batch, 3]");
}

TEST(Import, InputsMustBeTensorsOfKnownTypesAndRanks) {
  TestModel complex;
  complex.input("x", 14, {"2"}).output("y").node("Identity", {"x"}, {"y"});
  expect_says(import_error(complex), "element type 14 (complex64)");
  TestModel none;
  none.input("x", kFloat, {"2"});
  expect_says(import_error(none), "no outputs");
}

TestModel branching(int64_t condition) {
  TestModel inner;
  inner.output("r").node("Relu", {"x"}, {"r"});
  TestModel other;
  other.output("n").node("Neg", {"x"}, {"n"});
  TestModel m;
  m.input("x", kFloat, {"2"}).ints("c", {condition}).output("y");
  m.node("Cast", {"c"}, {"b"}, {TestModel::int_attribute("to", 9)});
  m.node("If", {"b"}, {"y"},
         {TestModel::graph_attribute("then_branch", inner.graph()),
          TestModel::graph_attribute("else_branch", other.graph())});
  return m;
}

TEST(Import, ConstantConditionsChooseABranch) {
  for (const int64_t condition : {0, 1}) {
    const ImportedModel model = import_model(branching(condition));
    ASSERT_EQ(model.graph.order().size(), 1u);
    EXPECT_EQ(op_display_name(model.graph.node(model.graph.order()[0]).op), condition ? "Relu" : "Neg");
  }
}

// ONNX wants a condition, if only an absent one; a file that leaves it out is no reason to read behind the
// operands.
TEST(Import, ALoopMayHaveATripCountAlone) {
  TestModel body;
  body.input("i", kInt64, {}).input("go", 9, {}).output("on").output("s");
  body.node("Identity", {"go"}, {"on"}).node("Neg", {"i"}, {"s"});
  for (const int64_t count : {4, 100}) {
    TestModel m;
    m.output("y").constant<int64_t>("count", kInt64, {}, {count});
    m.node("Loop", {"count"}, {"y"}, {TestModel::graph_attribute("body", body.graph())});
    const ImportedModel model = import_model(m);
    EXPECT_EQ(model.graph.value(model.graph.outputs()[0]).shape, (Shape{count}));
  }
}

TEST(Import, AConditionOfRunTimeNeedsBothBranches) {
  TestModel m;
  m.input("x", kFloat, {"2"}).input("b", 9, {"1"}).output("y").node("If", {"b"}, {"y"});
  expect_says(import_error(m), "a branch is missing");
}

TEST(Import, AConditionOfRunTimeBecomesAnOperatorWithBodies) {
  TestModel inner, other;
  inner.output("z").node("Relu", {"x"}, {"z"});
  other.output("z").node("Neg", {"x"}, {"z"});
  TestModel m;
  m.input("x", kFloat, {"2"})
      .input("b", 9, {})
      .output("y")
      .node("If", {"b"}, {"y"},
            {TestModel::graph_attribute("then_branch", inner.graph()),
             TestModel::graph_attribute("else_branch", other.graph())});
  const ImportedModel model = import_model(m);
  ASSERT_EQ(model.graph.order().size(), 1u);
  const Node& node = model.graph.node(model.graph.order()[0]);
  const auto* op = std::get_if<If>(&node.op);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(node.inputs.size(), 2u);  // the condition, and x, which both branches read
  EXPECT_EQ(op->then_branch.graph().inputs().size(), 1u);
  EXPECT_EQ(op_display_name(op->else_branch.graph().node(op->else_branch.graph().order()[0]).op), "Neg");
}

std::string leaky_function(std::string_view body_op) {
  std::string f, opset;
  put_bytes(f, 1, "MyAct");
  put_bytes(f, 4, "a");
  put_bytes(f, 5, "b");
  put_bytes(f, 6, "slope");
  put_bytes(f, 7,
            TestModel::make_node(body_op, {"a"}, {"b"}, {TestModel::reference_attribute("axis", "slope", 2)},
                                 body_op == "MyAct" ? "my" : ""));
  put_int(opset, 2, 17);
  put_bytes(f, 9, opset);
  put_bytes(f, 10, "my");
  return f;
}

TEST(Import, FunctionsAreExpanded) {
  TestModel m;
  m.input("x", kFloat, {"2", "3", "4"}).output("y").function(leaky_function("Flatten"));
  m.node("MyAct", {"x"}, {"y"}, {TestModel::int_attribute("slope", 2)}, "my");
  const ImportedModel model = import_model(m);
  EXPECT_EQ(output_shape(model), "[6, 4]");
  EXPECT_EQ(model.graph.node(model.graph.order()[0]).origins[0].name, "MyAct_of_y/Flatten_of_b");
}

TEST(Import, RecursiveFunctionsEnd) {
  TestModel m;
  m.input("x", kFloat, {"2"})
      .output("y")
      .function(leaky_function("MyAct"))
      .node("MyAct", {"x"}, {"y"}, {}, "my");
  expect_says(import_error(m), "does one call itself?");
}

TEST(Import, QuantizeNodesAreCounted) {
  struct Recorder final : Observer {
    std::string text;
    void on(const Event& event) override {
      if (const auto* m = std::get_if<Message>(&event)) text += m->text + "\n";
    }
  } recorder;
  TestModel m;
  m.input("x", kFloat, {"2"})
      .constant<float>("s", kFloat, {}, {0.5f})
      .constant<int8_t>("z", 3, {}, {0})
      .output("y");
  m.node("QuantizeLinear", {"x", "s", "z"}, {"q"}).node("DequantizeLinear", {"q", "s", "z"}, {"y"});
  const std::string bytes = m.bytes();
  const ImportedModel model = import_onnx(as_bytes(bytes), {}, recorder);
  EXPECT_EQ(model.quantize_count, 1);
  EXPECT_EQ(model.dequantize_count, 1);
  expect_says(recorder.text, "1 QuantizeLinear and 1 DequantizeLinear");
}

TEST(Importers, AreSortedAndDoNotOverlap) {
  const auto& all = all_importers();
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_LE(all[i].since, all[i].until) << all[i].op_type;
    if (i > 0 && all[i].op_type == all[i - 1].op_type && all[i].domain == all[i - 1].domain) {
      EXPECT_GT(all[i].since, all[i - 1].until) << all[i].op_type;
    }
  }
  bool known = false;
  EXPECT_EQ(find_importer({}, "Upsample", 11, &known), nullptr);
  EXPECT_TRUE(known);
}

// A sparse file, so it takes no disk: lengths and offsets beyond 32 bits.
TEST(Import, FilesOverTwoGigabytes) {
  constexpr int64_t kElements = 1200 * 1000 * 1000;  // 4.8 GB
  std::string front, graph_front, model_front;
  put_int(front, 1, kElements);
  put_int(front, 2, kFloat);
  put_bytes(front, 8, "w");
  put_key(front, 9, WireType::Bytes);
  put_varint(front, 4 * kElements);
  TestModel small;
  small.input("x", kFloat, {"1"}).output("y").node("Add", {"x", "w"}, {"y"});
  graph_front = small.graph();
  put_key(graph_front, 5, WireType::Bytes);
  put_varint(graph_front, front.size() + 4 * kElements);
  graph_front += front;
  std::string opset;
  put_int(opset, 2, 17);
  put_bytes(model_front, 8, opset);
  put_key(model_front, 7, WireType::Bytes);
  put_varint(model_front, graph_front.size() + 4 * kElements);
  std::string head = model_front + graph_front;
  // A field that readers skip, in front, puts the data on a multiple of four.
  std::string pad;
  put_bytes(pad, 6, std::string((6 - head.size() % 4) % 4, ' '));
  ASSERT_EQ((pad.size() + head.size()) % 4, 0u);
  const auto path =
      std::filesystem::temp_directory_path() / ("lathe_big_" + std::to_string(::getpid()) + ".onnx");
  std::ofstream(path, std::ios::binary) << pad << head;
  std::filesystem::resize_file(path, pad.size() + head.size() + 4 * kElements);
  NullObserver observer;
  const ImportedModel model = import_onnx(path, observer);
  EXPECT_EQ(output_shape(model), "[1200000000]");
  std::filesystem::resize_file(path, pad.size() + head.size() + 4 * kElements - 1);
  EXPECT_THROW(import_onnx(path, observer), Error);
  std::filesystem::remove(path);
}

// --- slices of symbolic dims

std::string sliced(const TestModel::Names& dims, int64_t start, int64_t end, int64_t step) {
  TestModel m;
  m.input("x", kFloat, dims).ints("s", {start}).ints("e", {end}).ints("a", {0}).ints("t", {step}).output("y");
  m.node("Slice", {"x", "s", "e", "a", "t"}, {"y"});
  return output_shape(import_model(m));
}

TEST(ImportSlice, ResolvesBounds) {
  EXPECT_EQ(sliced({"10"}, 2, -1, 1), "[7]");
  EXPECT_EQ(sliced({"10"}, -1, INT64_MIN, -1), "[10]");
  EXPECT_EQ(sliced({"10"}, 20, INT64_MAX, 1), "[0]");
  EXPECT_EQ(sliced({"seq"}, 0, INT64_MAX, 1), "[seq]");
  EXPECT_EQ(sliced({"seq"}, 0, 1, 1), "[1]");
  EXPECT_EQ(sliced({"seq"}, 0, -1, 1), "[max(seq - 1, 0)]");
  EXPECT_EQ(sliced({"seq"}, -1, INT64_MIN, -1), "[seq]");
  for (const int64_t start : {-2, -1, 0, 1})
    for (const int64_t end : {-2, -1, 0, 1})
      for (const int64_t step : {-2, -1, 1, 2}) EXPECT_EQ(sliced({"0"}, start, end, step), "[0]");
}

// table[a:b] of `rows` rows, where a and b are sizes of other tensors, negated or not.
std::string sliced_by_sizes(const std::string& rows, const std::string& start, const std::string& end) {
  TestModel m;
  m.input("table", kFloat, {rows}).input("a", kFloat, {start}).input("b", kFloat, {end}).output("y");
  m.node("Shape", {"a"}, {"size_a"}).node("Shape", {"b"}, {"size_b"}).node("Neg", {"size_a"}, {"minus_a"});
  m.node("Slice", {"table", start == "back" ? "minus_a" : "size_a", "size_b"}, {"y"});
  return output_shape(import_model(m));
}

TEST(ImportSlice, SymbolicBoundsAreClamped) {
  EXPECT_EQ(sliced_by_sizes("16", "0", "seq"), "[min(seq, 16)]");
  EXPECT_EQ(sliced_by_sizes("seq", "0", "seq"), "[seq]");
  EXPECT_EQ(sliced_by_sizes("rows", "0", "seq"), "[min(rows, seq)]");
  // From `back` rows before the end; back = 0 means from the first.
  const std::string text = sliced_by_sizes("16", "back", "16");
  const Dim length = Dim::parse(std::string_view(text).substr(1, text.size() - 2));
  for (const auto& [back, rows] : {std::pair{0, 16}, {1, 1}, {3, 3}, {16, 16}, {40, 16}})
    EXPECT_EQ(length.evaluate({{"back", back}}), rows) << back;
}

// --- einsum

TestModel einsum(const std::string& equation, const TestModel::Names& a, const TestModel::Names& b) {
  std::string attribute;
  put_bytes(attribute, 1, "equation");
  put_bytes(attribute, 4, equation);
  put_int(attribute, 20, 3);
  TestModel m;
  m.input("a", kFloat, a).input("b", kFloat, b).output("y").node("Einsum", {"a", "b"}, {"y"}, {attribute});
  return m;
}

TEST(ImportEinsum, ContractsBatchesAndSums) {
  const auto shape = [](const TestModel& m) { return output_shape(import_model(m)); };
  EXPECT_EQ(shape(einsum("bhsd,bhtd->bhst", {"b", "12", "s", "64"}, {"b", "12", "t", "64"})),
            "[b, 12, s, t]");
  EXPECT_EQ(shape(einsum("ij,jk", {"2", "3"}, {"3", "4"})), "[2, 4]");
  EXPECT_EQ(shape(einsum("ij,jk->ki", {"2", "3"}, {"3", "4"})), "[4, 2]");
  EXPECT_EQ(shape(einsum("...ij,jk", {"5", "6", "2", "3"}, {"3", "4"})), "[5, 6, 2, 4]");
  EXPECT_EQ(shape(einsum("ij,kl->", {"2", "3"}, {"3", "4"})), "[]");
}

TEST(ImportEinsum, ALabelTwiceIsTheDiagonal) {
  const ImportedModel model = import_model(einsum("iji,j->ij", {"2", "2", "2"}, {"2"}));
  const std::vector<Tensor> inputs = {Tensor::from<float>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                      Tensor::from<float>({2}, {1, 10})};
  EXPECT_EQ(interpret(model.graph, inputs)[0].to_doubles(), (std::vector<double>{1, 30, 6, 80}));
  EXPECT_EQ(output_shape(import_model(einsum("ii,i->i", {"n", "n"}, {"n"}))), "[n]");
}

TEST(ImportEinsum, RefusesWhatItCannotSay) {
  expect_says(import_error(einsum("ij->i", {"2", "3"}, {"3"})), "has 1 terms for 2 operands");
  expect_says(import_error(einsum("ij,jk->z", {"2", "3"}, {"3", "4"})), "label 'z' of the output");
  expect_says(import_error(einsum("ijk,jk", {"2", "3"}, {"3", "4"})), "does not fit its operand");
}

// --- external data

class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("lathe_external_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_ / "model" / "inner");
    write("model/w.bin", std::string(64, '\1'));
    write("outside.bin", std::string(64, '\2'));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  std::string import_external(std::string_view location, std::string_view offset = "0",
                              std::string_view length = "16") {
    TestModel m;
    m.input("x", kFloat, {"4"})
        .external("w", {4}, location, offset, length)
        .output("y")
        .node("Add", {"x", "w"}, {"y"});
    write("model/m.onnx", m.bytes());
    NullObserver observer;
    try {
      import_onnx(folder_ / "model" / "m.onnx", observer);
    } catch (const Error& error) {
      return error.what();
    }
    return "fine";
  }

  std::filesystem::path folder_;
};

TEST_F(ExternalData, IsReadBesideTheModel) {
  EXPECT_EQ(import_external("w.bin", "48"), "fine");
  EXPECT_EQ(import_external("inner/../w.bin"), "fine");
}

TEST_F(ExternalData, MustStayInsideTheFolder) {
  std::filesystem::create_symlink(folder_ / "outside.bin", folder_ / "model" / "link.bin");
  expect_says(import_external("../outside.bin"), "leads out of the model's folder");
  expect_says(import_external("link.bin"), "leads out of the model's folder");
  expect_says(import_external("/etc/passwd"), "relative to the model's folder");
  expect_says(import_external(""), "relative to the model's folder");
  expect_says(import_external("none.bin"), "cannot find 'none.bin'");
  expect_says(import_external("inner"), "is not a file");
}

TEST_F(ExternalData, OffsetsAndLengthsAreChecked) {
  expect_says(import_external("w.bin", "60"), "pass the end of 'w.bin', which has 64");
  expect_says(import_external("w.bin", "-8"), "offset is '-8'");
  expect_says(import_external("w.bin", "99999999999999999999"), "not a number of bytes");
  expect_says(import_external("w.bin", "0", "12"), "length is 12");
}

TEST(Import, ExternalDataNeedsAFolder) {
  TestModel m;
  m.external("w", {4}, "w.bin", "0", "16").output("w");
  expect_says(import_error(m), "not read from a file");
}

}  // namespace
}  // namespace lathe::onnx
