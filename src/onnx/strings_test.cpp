// SPDX-License-Identifier: Apache-2.0
//
// Models that read and give strings.
#include "onnx/strings.h"

#include <gtest/gtest.h>

#include "ir/strings.h"
#include "onnx/export.h"
#include "onnx/import_check.h"
#include "ops/interpreter.h"

namespace lathe::onnx {
namespace {

using Names = TestModel::Names;
using Numbers = std::vector<double>;

Tensor texts(const Names& strings, Extents extents = {}) {
  const std::vector<std::string_view> views(strings.begin(), strings.end());
  return strings_tensor(extents.empty() ? Extents{static_cast<int64_t>(views.size())} : extents, views);
}

Names texts_of(const Tensor& tensor) {
  const Strings strings(tensor);
  Names all;
  for (int64_t i = 0; i < strings.count(); ++i) all.emplace_back(strings[i]);
  return all;
}

struct ImportedStrings {
  explicit ImportedStrings(const TestModel& model) : bytes(model.bytes()) {
    NullObserver observer;
    imported = import_onnx(as_bytes(bytes), {}, observer);
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const {
    return interpret(imported.graph, inputs);
  }
  std::string bytes;
  ImportedModel imported;
};

TestModel string_node(std::string_view op, const Names& attributes = {}, std::string_view domain = {}) {
  TestModel m(20);
  m.input("x", kString, {"n"}).node(op, {"x"}, {"y"}, attributes, domain).output("y", kString);
  return m.opset_of("ai.onnx.ml", 4);
}

TEST(Strings, HaveADimOfBytes) {
  const ImportedStrings read(string_node("Identity"));
  const Value& x = read.imported.graph.value(read.imported.graph.inputs()[0]);
  EXPECT_EQ(x.dtype, DType::UInt8);
  EXPECT_EQ(to_string(x.shape), "[n, x.bytes]");
  EXPECT_TRUE(read.imported.strings.contains("x"));
  EXPECT_TRUE(read.imported.strings.contains("y"));
  EXPECT_EQ(texts_of(read.run({texts({"a", "", "äö"})})[0]), (Names{"a", "", "äö"}));
}

TEST(Strings, ConstantsAndArithmeticOfThem) {
  TestModel m(20);
  m.input("x", kString, {"n"}).strings("w", {"-ending"}).output("y", kString).output("z", kBool);
  m.node("StringConcat", {"x", "w"}, {"y"}).node("Equal", {"y", "v"}, {"z"});
  m.node("Constant", {}, {"v"}, {TestModel::texts_attribute("value_strings", {"a-ending"})});
  const auto results = ImportedStrings(m).run({texts({"a", "b"})});
  EXPECT_EQ(texts_of(results[0]), (Names{"a-ending", "b-ending"}));
  EXPECT_EQ(results[1].to_doubles(), (Numbers{1, 0}));
}

TEST(Strings, AreMovedByNumber) {
  TestModel m(20);
  m.input("x", kString, {"2", "2"}).input("z", kString, {"1", "2"}).input("c", kBool, {"3", "1"});
  m.ints("order", {2, 0}).strings("no", {"no"}).output("y", kString).output("s", kInt64);
  m.node("Concat", {"x", "z"}, {"all"}, {TestModel::int_attribute("axis", 0)});
  m.node("Where", {"c", "all", "no"}, {"chosen"}).node("Gather", {"chosen", "order"}, {"rows"});
  m.node("Transpose", {"rows"}, {"y"}).node("Shape", {"x"}, {"s"});
  const auto results =
      ImportedStrings(m).run({texts({"a", "b", "c", "d"}, {2, 2}), texts({"long string", "f"}, {1, 2}),
                              Tensor::from<bool>({3, 1}, {false, true, true})});
  EXPECT_EQ(texts_of(results[0]), (Names{"long string", "no", "f", "no"}));
  EXPECT_EQ(results[0].extents()[0], 2);
  EXPECT_EQ(results[1].to_doubles(), (Numbers{2, 2}));
}

TEST(Strings, AsKeysAndValues) {
  const Names words = {"b", "x", "a"};
  const auto encoded = [&](const Names& attributes) {
    return ImportedStrings(string_node("LabelEncoder", attributes, "ai.onnx.ml")).run({texts(words)})[0];
  };
  const std::string keys = TestModel::texts_attribute("keys_strings", {"a", "b"});
  EXPECT_EQ(encoded({keys, TestModel::ints_attribute("values_int64s", {7, 8})}).to_doubles(),
            (Numbers{8, -1, 7}));
  EXPECT_EQ(texts_of(encoded({keys, TestModel::texts_attribute("values_strings", {"A", "B"}),
                              TestModel::text_attribute("default_string", "?")})),
            (Names{"B", "?", "A"}));
  EXPECT_EQ(texts_of(encoded({TestModel::tensor_attribute("keys_tensor", TestModel::make_strings("k", {"a"})),
                              TestModel::texts_attribute("values_strings", {"A"})})),
            (Names{"_Unused", "_Unused", "A"}));
  const Names categories = {TestModel::texts_attribute("cats_strings", {"a", "b"}),
                            TestModel::ints_attribute("cats_int64s", {7, 8})};
  EXPECT_EQ(ImportedStrings(string_node("CategoryMapper", categories, "ai.onnx.ml"))
                .run({texts(words)})[0]
                .to_doubles(),
            (Numbers{8, -1, 7}));
  EXPECT_EQ(ImportedStrings(string_node("OneHotEncoder", {categories[0]}, "ai.onnx.ml"))
                .run({texts(words)})[0]
                .to_doubles(),
            (Numbers{0, 1, 0, 0, 1, 0}));
}

TEST(Strings, AsLabelsOfAClassifier) {
  TestModel m;
  m.input("x", kFloat, {"n", "1"}).output("label", kString).output("scores");
  m.node("LinearClassifier", {"x"}, {"label", "scores"},
         {TestModel::floats_attribute("coefficients", {1, -1}),
          TestModel::texts_attribute("classlabels_strings", {"yes", "no"})},
         "ai.onnx.ml");
  const ImportedStrings read(m);
  EXPECT_TRUE(read.imported.strings.contains("label"));
  EXPECT_FALSE(read.imported.strings.contains("scores"));
  EXPECT_EQ(texts_of(read.run({Tensor::from<float>({2, 1}, {3, -3})})[0]), (Names{"yes", "no"}));
}

TEST(Strings, AsTokens) {
  const Names attributes = {TestModel::text_attribute("mode", "TF"),
                            TestModel::int_attribute("min_gram_length", 1),
                            TestModel::int_attribute("max_gram_length", 1),
                            TestModel::int_attribute("max_skip_count", 0),
                            TestModel::ints_attribute("ngram_counts", {0}),
                            TestModel::ints_attribute("ngram_indexes", {0, 1}),
                            TestModel::texts_attribute("pool_strings", {"a", "b"})};
  EXPECT_EQ(ImportedStrings(string_node("TfIdfVectorizer", attributes))
                .run({texts({"b", "c", "b", "a"})})[0]
                .to_doubles(),
            (Numbers{1, 2}));
}

TEST(Strings, LeaveAsModelsOfOurOwn) {
  const ImportedStrings read(string_node("StringSplit", {TestModel::text_attribute("delimiter", "-")}));
  const std::string model = export_onnx(read.imported.graph);
  NullObserver observer;
  const Graph again = import_onnx(as_bytes(model), {}, observer).graph;
  EXPECT_EQ(texts_of(interpret(again, std::vector{texts({"a-b", "c"})})[0]), (Names{"a", "b", "c", ""}));
}

TEST(Strings, Errors) {
  expect_says(import_error(string_node("Relu")), "one of its inputs is strings, which it cannot read");
  expect_says(import_error(string_node("SequenceConstruct")), "there are no sequences of strings");
  expect_says(import_error(string_node("RegexFullMatch", {TestModel::text_attribute("pattern", "(")})),
              "its pattern '(' is none of RE2's");
  expect_says(
      import_error(string_node("StringNormalizer", {TestModel::text_attribute("case_change_action", "no")})),
      "case_change_action is 'no'");
  TestModel numbers(20);
  numbers.input("x", kFloat, {"n"}).node("StringSplit", {"x"}, {"y"}).output("y", kString);
  expect_says(import_error(numbers), "input 0 is no tensor of strings");
  TestModel few(20);
  std::string tensor = TestModel::make_strings("w", {"a"});
  put_int(tensor, 1, 7);  // dims 1, 7
  few.input("x", kString, {"n"}).initializer(tensor).node("StringConcat", {"x", "w"}, {"y"});
  expect_says(import_error(few.output("y", kString)), "there are 1 strings for 1x7");
  expect_says(import_error(string_node("LabelEncoder",
                                       {TestModel::ints_attribute("keys_int64s", {1}),
                                        TestModel::ints_attribute("values_int64s", {1})},
                                       "ai.onnx.ml")),
              "its input is strings, and its keys are numbers");
}

}  // namespace
}  // namespace lathe::onnx
