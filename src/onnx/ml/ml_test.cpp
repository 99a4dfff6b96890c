// SPDX-License-Identifier: Apache-2.0
//
// ai.onnx.ml: what the operators refuse, and what they say. Their values are compared with ONNX Runtime's in
// tests/conformance/domains.
#include <gtest/gtest.h>

#include "onnx/import_check.h"
#include "ops/interpreter.h"

namespace lathe::onnx {
namespace {

using Names = TestModel::Names;

TestModel ml_node(std::string_view op, const Names& attributes, const Names& outputs = {"y"}) {
  TestModel m;
  m.input("x", kFloat, {"n", "3"}).node(op, {"x"}, outputs, attributes, "ai.onnx.ml");
  for (const std::string& name : outputs) m.output(name);
  return m;
}

std::string floats_field(std::string_view name, const std::vector<float>& values) {
  return TestModel::floats_attribute(name, values);
}
std::string ints_field(std::string_view name, const std::vector<int64_t>& values) {
  return TestModel::ints_attribute(name, values);
}
std::string text_field(std::string_view name, std::string_view value) {
  return TestModel::text_attribute(name, value);
}

TEST(ImportMl, ZipMapGivesTheTensor) {
  const TestModel m = ml_node("ZipMap", {ints_field("classlabels_int64s", {0, 1, 2})});
  Notes notes;
  const std::string bytes = m.bytes();
  const ImportedModel model = import_onnx(as_bytes(bytes), {}, notes);
  const std::vector<Tensor> inputs = {Tensor::from<float>({1, 3}, {0.5, 0.25, 0.25})};
  EXPECT_EQ(interpret(model.graph, inputs)[0].to_doubles(), (std::vector<double>{0.5, 0.25, 0.25}));
  expect_says(notes.text,
              "node 'ZipMap_of_y' (ZipMap): its output is the tensor of scores (a column per class) instead "
              "of a sequence of maps");
}

TEST(ImportMl, AttributesMustFit) {
  expect_says(import_error(ml_node("LinearRegressor", {})), "attribute 'coefficients' is missing");
  expect_says(import_error(ml_node("LinearRegressor", {floats_field("coefficients", {1, 2, 3}),
                                                       TestModel::int_attribute("targets", 2)})),
              "its 3 coefficients do not divide into 2 rows");
  expect_says(import_error(ml_node("LinearRegressor", {floats_field("coefficients", {1, 2, 3}),
                                                       text_field("post_transform", "SOFT")})),
              "post_transform is 'SOFT', not NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT");
  expect_says(
      import_error(ml_node("LinearClassifier", {floats_field("coefficients", {1, 2, 3})}, {"l", "s"})),
      "it has no class labels");
  expect_says(
      import_error(ml_node(
          "LinearClassifier",
          {floats_field("coefficients", {1, 2, 3}), ints_field("classlabels_ints", {1, 2, 3})}, {"l", "s"})),
      "it has one score for 3 labels");
  expect_says(import_error(ml_node("Normalizer", {text_field("norm", "L3")})),
              "norm is 'L3', not MAX, L1 or L2");
  expect_says(import_error(ml_node("Imputer", {})), "it has no values to impute");
  expect_says(import_error(ml_node("LabelEncoder",
                                   {ints_field("keys_int64s", {1, 2}), ints_field("values_int64s", {1})})),
              "it has 2 keys and 1 values");
}

TEST(ImportMl, SupportVectorsMustFit) {
  const std::string rho = floats_field("rho", {0});
  expect_says(import_error(ml_node("SVMRegressor", {floats_field("coefficients", {1, 2}),
                                                    floats_field("support_vectors", {1, 2, 3, 4, 5}), rho,
                                                    TestModel::int_attribute("n_supports", 2)})),
              "its 5 numbers of support vectors do not divide into 2");
  expect_says(
      import_error(ml_node(
          "SVMRegressor", {floats_field("coefficients", {1}), floats_field("support_vectors", {1, 2, 3}), rho,
                           TestModel::int_attribute("n_supports", 1), text_field("kernel_type", "COSINE")})),
      "kernel_type is 'COSINE', not LINEAR, POLY, RBF or SIGMOID");
  const Names three = {ints_field("classlabels_ints", {0, 1, 2}),
                       ints_field("vectors_per_class", {1, 1, 1}),
                       floats_field("support_vectors", std::vector<float>(9, 1)),
                       floats_field("coefficients", std::vector<float>(6, 1)),
                       floats_field("rho", {0, 0, 0}),
                       floats_field("prob_a", {1, 1, 1})};
  expect_says(import_error(ml_node("SVMClassifier", three, {"l", "s"})),
              "its probabilities for more than two classes (prob_a) are found by an iteration");
}

// A root with two leaves, with one attribute replaced.
Names tree(const std::string& name, const std::vector<int64_t>& values) {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> all = {
      {"nodes_treeids", {0, 0, 0}},      {"nodes_nodeids", {0, 1, 2}},
      {"nodes_featureids", {0, 0, 0}},   {"nodes_truenodeids", {1, 0, 0}},
      {"nodes_falsenodeids", {2, 0, 0}}, {"target_treeids", {0, 0}},
      {"target_nodeids", {1, 2}},        {"target_ids", {0, 0}}};
  Names attributes = {floats_field("nodes_values", {0.5, 0, 0}), floats_field("target_weights", {1, 2}),
                      TestModel::texts_attribute("nodes_modes", {"BRANCH_LEQ", "LEAF", "LEAF"})};
  for (const auto& [key, given] : all) attributes.push_back(ints_field(key, key == name ? values : given));
  return attributes;
}

TEST(ImportMl, TreesMustBeTrees) {
  const auto error = [](const std::string& name, const std::vector<int64_t>& values) {
    return import_error(ml_node("TreeEnsembleRegressor", tree(name, values)));
  };
  EXPECT_EQ(error("", {}), "no error");
  expect_says(error("nodes_nodeids", {0, 1, 1}), "tree 0 has node 1 twice");
  expect_says(error("nodes_truenodeids", {7, 0, 0}), "tree 0 has no node 7");
  expect_says(error("nodes_falsenodeids", {1, 0, 0}), "tree 0 has two roots");
  expect_says(error("target_ids", {0, 1}), "a leaf counts for number 1 of 1");
  expect_says(error("target_nodeids", {1}), "attribute 'target_nodeids' has 1 entries instead of 2");
  Names cycle = tree("nodes_truenodeids", {0, 0, 0});
  expect_says(import_error(ml_node("TreeEnsembleRegressor", cycle)),
              "no root leads to node 0 of its trees: is there a cycle?");
}

// Two leaves, which count for class `id`.
Names classifier(int64_t id, const std::vector<int64_t>& labels, const std::vector<float>& base) {
  return {ints_field("nodes_treeids", {0, 0, 0}),
          ints_field("nodes_nodeids", {0, 1, 2}),
          ints_field("nodes_featureids", {0, 0, 0}),
          ints_field("nodes_truenodeids", {1, 0, 0}),
          ints_field("nodes_falsenodeids", {2, 0, 0}),
          ints_field("class_treeids", {0, 0}),
          ints_field("class_nodeids", {1, 2}),
          ints_field("class_ids", {id, id}),
          ints_field("classlabels_int64s", labels),
          floats_field("nodes_values", {0.5, 0, 0}),
          floats_field("class_weights", {1, 2}),
          floats_field("base_values", base),
          TestModel::texts_attribute("nodes_modes", {"BRANCH_LEQ", "LEAF", "LEAF"})};
}

TEST(ImportMl, BaseValuesMustFit) {
  const auto error = [](int64_t id, const std::vector<int64_t>& labels, const std::vector<float>& base) {
    return import_error(ml_node("TreeEnsembleClassifier", classifier(id, labels, base), {"l", "s"}));
  };
  EXPECT_EQ(error(0, {3, 5}, {0.5f}), "no error");
  EXPECT_EQ(error(1, {3, 5}, {}), "no error");
  EXPECT_EQ(error(0, {3, 5, 7}, {1, 2, 3}), "no error");
  expect_says(error(0, {3, 5, 7}, {1, 2}), "it has 2 base values for 3 scores");
  expect_says(error(0, {3, 5}, {1, 2}), "its leaves count for one of two classes and it has two base values");
  expect_says(error(1, {3, 5}, {1}),
              "its leaves count for the second of two classes only and it has base values");
  expect_says(error(0, {3}, {}), "it has one class label; write both labels");
}

}  // namespace
}  // namespace lathe::onnx
