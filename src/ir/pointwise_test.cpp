// SPDX-License-Identifier: Apache-2.0
#include "ir/pointwise.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "ir/op.h"

namespace lathe {
namespace {

std::string parse_error(std::string_view text, int inputs) {
  try {
    PointwiseProgram::parse(text, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Pointwise, TableIsInOrderOfTheCodes) {
  for (size_t i = 0; i < all_pointwise().size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(all_pointwise()[i].code), i) << all_pointwise()[i].name;
    EXPECT_EQ(enum_from_name<PointwiseCode>(all_pointwise()[i].name), all_pointwise()[i].code);
  }
  EXPECT_EQ(all_pointwise().back().code, PointwiseCode::Where);
  EXPECT_THROW(pointwise_info(static_cast<PointwiseCode>(255)), Error);
}

TEST(Pointwise, ProgramReadsBack) {
  for (const char* text :
       {"Add(0,1) Relu(2)", "Clip[0,6](0)", "LeakyRelu[0.1](0) Where(1,0,2)", "Linear[1e-30,-3](0)"}) {
    EXPECT_EQ(PointwiseProgram::parse(text, 2).to_string(), text);
  }
  EXPECT_TRUE(PointwiseProgram::parse("", 1).empty());
}

TEST(Pointwise, OddParametersReadBack) {
  PointwiseProgram program{1,
                           {{PointwiseCode::Clip, -std::numeric_limits<float>::infinity(), 0.1f, {0}},
                            {PointwiseCode::Relu, 0, 2, {1}}}};
  EXPECT_EQ(PointwiseProgram::parse(program.to_string(), 1), program);
}

TEST(Pointwise, ErrorsSayWhere) {
  EXPECT_EQ(parse_error("Bogus(0)", 1),
            "pointwise program, at character 6: unknown pointwise operation \"Bogus\"");
  EXPECT_NE(parse_error("Relu(0)", -1).find("-1 inputs"), std::string::npos);
  EXPECT_NE(parse_error("Relu(1)", 1).find("operand 1 is not defined yet"), std::string::npos);
  EXPECT_NE(parse_error("Relu(-1)", 1).find("not defined yet"), std::string::npos);
  EXPECT_NE(parse_error("Add(0)", 1).find("takes 2 operands, not 1"), std::string::npos);
  EXPECT_NE(parse_error("Add(0,1", 2).find("expected ')'"), std::string::npos);
  EXPECT_NE(parse_error("Clip[x](0)", 1).find("expected a number"), std::string::npos);
  EXPECT_NE(parse_error("Add", 1).find("expected '('"), std::string::npos);
}

TEST(Op, NamesOfEnums) {
  EXPECT_EQ(enum_name(AutoPad::SameUpper), "SameUpper");
  EXPECT_EQ(enum_from_name<CoordinateMode>("TfHalfPixelForNn"), CoordinateMode::TfHalfPixelForNn);
  EXPECT_EQ(enum_from_name<ReduceKind>("SumSquare"), ReduceKind::SumSquare);
  EXPECT_EQ(enum_from_name<PoolKind>("Bogus"), std::nullopt);
  EXPECT_EQ(op_name(Pointwise{PointwiseCode::Relu}), "Pointwise");
  EXPECT_EQ(op_display_name(Pointwise{PointwiseCode::Relu}), "Relu");
  EXPECT_EQ(op_display_name(ReshapeOp{}), "Reshape");
}

}  // namespace
}  // namespace lathe
