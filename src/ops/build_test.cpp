// SPDX-License-Identifier: Apache-2.0

#include "ops/build.h"

#include <gtest/gtest.h>

#include "ops/evaluate_op.h"

namespace lathe {
namespace {

Graph small_graph() {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Float32, {Dim::symbol("n"), 3});
  const ValueId w = editor.add_constant("w", ramp({3, 2}));
  const ValueId y = append_node(editor, "product", MatMul{}, {x, w}, {{"product", "MatMul"}})[0];
  editor.mark_output(append_node(editor, "relu", Pointwise{PointwiseCode::Relu}, {y}, {})[0]);
  return graph;
}

TEST(Build, AppendsNodesWithInferredResults) {
  const Graph graph = small_graph();
  const Value& y = graph.value(graph.outputs()[0]);
  EXPECT_EQ(y.name, "relu_output");
  EXPECT_EQ(y.shape, (Shape{Dim::symbol("n"), 2}));
  verify_graph(graph);
}

TEST(Build, OutputsBeyondTheFirstAreNumbered) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Float32, {1, 1, 4});
  const auto outputs = append_node(editor, "pool", Pool{PoolKind::Max, {2}}, {x}, {}, {}, 2);
  EXPECT_EQ(graph.value(outputs[1]).name, "pool_output_1");
  EXPECT_EQ(graph.value(outputs[1]).dtype, DType::Int64);
}

TEST(Build, VerifyFindsAWrongShapeAndAWrongType) {
  Graph graph = small_graph();
  GraphEditor(graph).set_shape(graph.outputs()[0], {Dim::symbol("n"), 5});
  try {
    verify_graph(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    EXPECT_NE(std::string(error.what()).find("node 'relu' (Relu): output 'relu_output' is float32[n, 5]"),
              std::string::npos)
        << error.what();
  }
  graph = small_graph();
  GraphEditor(graph).set_type(graph.outputs()[0], DType::Float16, kLinear);
  EXPECT_THROW(verify_graph(graph), Error);
  // The tuner may store a layer in a type that a pass allowed.
  GraphEditor(graph).set_allowed_types(graph.order().back(), {DType::Float16});
  verify_graph(graph);
}

TEST(Build, InferShapesFollowsChangedInputs) {
  Graph graph = small_graph();
  GraphEditor(graph).set_shape(graph.inputs()[0], {8, 3});
  infer_shapes(graph);
  EXPECT_EQ(graph.value(graph.outputs()[0]).shape, (Shape{8, 2}));
  verify_graph(graph);
}

TEST(OpDefs, EveryOneIsListedOnceAndNamed) {
  for (const OpDef& def : all_op_defs()) {
    EXPECT_FALSE(def.name.empty());
    EXPECT_TRUE(def.infer && def.evaluate) << def.name;
  }
  EXPECT_EQ(find_op_def(MatMul{}).name, "MatMul");
}

TEST(OpDefs, FlopsCountMultiplyAndAdd) {
  Node node;
  node.op = MatMul{};
  const std::vector<Extents> inputs = {{2, 3}, {3, 4}}, outputs = {{2, 4}};
  EXPECT_EQ(node_flops(node, {inputs, outputs}), 48);
  node.epilogue = PointwiseProgram::parse("Relu(0)", 1);
  EXPECT_EQ(node_flops(node, {inputs, outputs}), 56);
  node.op = Conv{};
  node.epilogue = {};
  const std::vector<Extents> conv_inputs = {{1, 8, 5, 5}, {16, 4, 3, 3}}, conv_outputs = {{1, 16, 3, 3}};
  EXPECT_EQ(node_flops(node, {conv_inputs, conv_outputs}), 2.0 * 144 * 36);
}

TEST(OpDefs, MissingInputsAndOutputsAreNamed) {
  expect_input_error([] { evaluate_op(MatMul{}, {ramp({2, 2})}); }, "input 1 is required but absent");
  expect_input_error(
      [] {
        evaluate_op(MatMul{}, {ramp({2, 2}), ramp({2, 2})}, 2);
      },
      "has 2 outputs, the operator gives 1");
}

}  // namespace
}  // namespace lathe
