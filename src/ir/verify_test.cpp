// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/edit.h"

namespace lathe {
namespace {

struct Small {
  Graph graph;
  GraphEditor editor{graph};
  ValueId x = editor.add_input("x", DType::Float32, {4});
  NodeId a =
      editor.add_node("a", Pointwise{}, {x}, {{.name = "va", .dtype = DType::Float32, .shape = {4}}}, {});
  NodeId b = editor.add_node("b", Pointwise{}, {graph.node(a).outputs[0]},
                             {{.name = "vb", .dtype = DType::Float32, .shape = {4}}}, {});
  Small() { editor.mark_output(graph.node(b).outputs[0]); }

  std::string broken_rule() {
    try {
      verify_structure(graph);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Internal);
      return error.what();
    }
    return "";
  }
};

TEST(Verify, AcceptsAGoodGraph) {
  EXPECT_EQ(Small().broken_rule(), "");
}

TEST(Verify, NamesNodeAndRule) {
  Small order;
  order.editor.replace_input(order.a, 0, order.graph.node(order.b).outputs[0]);
  EXPECT_NE(order.broken_rule().find("node a reads vb before it is computed"), std::string::npos);

  Small type;
  type.editor.set_type(type.graph.node(type.a).outputs[0], DType::Undefined, {});
  EXPECT_NE(type.broken_rule().find("value va has no type"), std::string::npos);

  Small constant;
  const ValueId k = constant.editor.add_constant("k", Tensor::scalar_f32(1));
  constant.editor.replace_input(constant.b, 0, k);
  constant.editor.set_shape(k, {2});
  EXPECT_NE(constant.broken_rule().find("constant k differs from its type or shape"), std::string::npos);

  Small grid;
  grid.editor.set_quantization(grid.x, Quantization{.scales = {-1}});
  EXPECT_NE(grid.broken_rule().find("value x: a scale is not a positive normal number"), std::string::npos);
  grid.editor.set_quantization(grid.x, Quantization{});
  grid.editor.set_type(grid.x, DType::Int8, {});
  EXPECT_NE(grid.broken_rule().find("value x is neither a float nor stored as its grid says"),
            std::string::npos);
  grid.editor.set_type(grid.x, DType::Float8E5M2, {});
  EXPECT_NE(grid.broken_rule().find("value x is neither a float nor stored as its grid says"),
            std::string::npos);
  grid.editor.set_quantization(grid.x, Quantization{.dtype = DType::Float8E4M3FN, .zeros = {3}});
  EXPECT_NE(grid.broken_rule().find("value x: a grid of float8e4m3fn has no zero point but 0"),
            std::string::npos);
  grid.editor.set_type(grid.x, DType::Float8E4M3FN, {});
  grid.editor.set_quantization(grid.x, Quantization{.dtype = DType::Float8E4M3FN});
  EXPECT_EQ(grid.broken_rule().find("value x"), std::string::npos);

  Small program;
  program.editor.set_epilogue(program.b, {1, {{PointwiseCode::Relu, 0, 0, {3}}}}, {});
  EXPECT_NE(program.broken_rule().find("node b: epilogue: step 0 reads what is not computed yet"),
            std::string::npos);

  Small arity;
  arity.editor.set_epilogue(arity.b, {1, {{PointwiseCode::Add, 0, 0, {0}}}}, {});
  EXPECT_NE(arity.broken_rule().find("step 0 has a wrong number of operands"), std::string::npos);

  Small empty;
  empty.editor.add_node("c", Pointwise{}, {empty.x}, {}, {});
  EXPECT_NE(empty.broken_rule().find("node c has no output"), std::string::npos);

  Small operand;
  operand.editor.set_epilogue(operand.b, PointwiseProgram::parse("Add(0,1)", 2), {kNoValue});
  EXPECT_NE(operand.broken_rule().find("an operand of the epilogue is absent"), std::string::npos);
}

}  // namespace
}  // namespace lathe
