// SPDX-License-Identifier: Apache-2.0
#include "builder/edit_network.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"
#include "ops/interpreter.h"

namespace lathe {
namespace {

constexpr const char* kEditedModel = R"(graph "small" {
  input %x: float32[n, 4]
  input %y: float32[n, 4]
  const %two: float32[] = [2]
  const %three: float32[] = [3]
  %six: float32[] = Pointwise "product" (%two, %three) {code=Mul} from ["product" Mul]
  %a: float32[n, 4] = Pointwise "scale" (%x, %six) {code=Mul} from ["scale" Mul]
  %b: float32[n, 4] = Pointwise "relu" (%a) {code=Relu} from ["relu" Relu]
  %c: float32[n, 4] = Pointwise "sum" (%b, %y) {code=Add} from ["sum" Add]
  output %c
})";

std::vector<std::string> names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> result;
  for (const ValueId id : ids) result.push_back(graph.value(id).name);
  return result;
}

std::string edit_error(const std::function<void(Graph&)>& edit) {
  Graph graph = parse_graph(kEditedModel);
  try {
    edit(graph);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::Input ? error.what() : "another kind";
  }
  return "no error";
}

Tensor row(std::vector<float> values) {
  return Tensor::from<float>({1, 4}, values);
}

std::vector<double> result(const Graph& graph, const std::vector<Tensor>& inputs) {
  return interpret(graph, inputs)[0].to_doubles();
}

TEST(EditNetwork, TakesAPartBetweenTensors) {
  Graph graph = parse_graph(kEditedModel);
  set_outputs(graph, {"b"});
  cut_input(graph, "a");
  graph = without_unused(graph);
  EXPECT_EQ(names(graph, graph.inputs()), (std::vector<std::string>{"a"}));
  EXPECT_EQ(names(graph, graph.outputs()), (std::vector<std::string>{"b"}));
  EXPECT_EQ(graph.order().size(), 1u);
  EXPECT_EQ(result(graph, {row({-1, 2, -3, 4})}), (std::vector<double>{0, 2, 0, 4}));
}

TEST(EditNetwork, SetsShapesAndFolds) {
  Graph graph = parse_graph(kEditedModel);
  set_input_shape(graph, "x", {1, -1});
  fold(graph);
  EXPECT_EQ(to_string(graph.value(graph.outputs()[0]).shape), to_string(Shape{Dim(1), Dim(4)}));
  EXPECT_EQ(graph.order().size(), 3u);
  EXPECT_EQ(result(graph, {row({-1, 2, 0, 1}), row({1, 1, 1, 1})}), (std::vector<double>{1, 13, 1, 7}));
}

TEST(EditNetwork, Renames) {
  Graph graph = parse_graph(kEditedModel);
  rename(graph, "x", "image");
  rename(graph, "c", "result");
  rename(graph, "relu", "activation");
  EXPECT_EQ(names(graph, graph.inputs()), (std::vector<std::string>{"image", "y"}));
  EXPECT_EQ(names(graph, graph.outputs()), (std::vector<std::string>{"result"}));
  EXPECT_NE(to_text(graph).find("\"activation\""), std::string::npos);
}

TEST(EditNetwork, ErrorsTeach) {
  EXPECT_EQ(edit_error([](Graph& g) { set_input_shape(g, "q", {1, 4}); }), "the network has no input 'q'");
  EXPECT_NE(edit_error([](Graph& g) {
              set_input_shape(g, "x", {1, 5});
            }).find("cannot become 1x5 (only dynamic dims"),
            std::string::npos);
  EXPECT_NE(edit_error([](Graph& g) { cut_input(g, "q"); }).find("the network has no tensor 'q'"),
            std::string::npos);
  EXPECT_EQ(edit_error([](Graph& g) { cut_input(g, "two"); }),
            "'two' is a constant and cannot become an input");
  EXPECT_EQ(edit_error([](Graph& g) { cut_input(g, "c"); }),
            "'c' is an output and cannot become an input, too");
  EXPECT_EQ(edit_error([](Graph& g) { set_outputs(g, {"b", "b"}); }), "'b' is given twice as an output");
  EXPECT_EQ(edit_error([](Graph& g) { rename(g, "x", "y"); }), "there is a tensor 'y' already");
  EXPECT_EQ(edit_error([](Graph& g) { rename(g, "relu", "sum"); }), "there is a node 'sum' already");
  EXPECT_EQ(edit_error([](Graph& g) { rename(g, "q", "r"); }),
            "the network has neither a tensor nor a node 'q'");
}

}  // namespace
}  // namespace lathe
