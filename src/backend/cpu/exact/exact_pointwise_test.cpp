// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"
#include "backend/cpu/exact/exact_loops.h"

namespace lathe::cpu {
TacticFamily exact_pointwise_tactics();
namespace {

constexpr DType kIntegers[] = {DType::Int8,  DType::UInt8,  DType::Int16, DType::UInt16,
                               DType::Int32, DType::UInt32, DType::Int64, DType::UInt64};

CheckedInput exact_numbers(DType type, Extents extents, bool positive = false) {
  const bool has_sign = type == DType::Int8 || type == DType::Int16 || type == DType::Int32 ||
                        type == DType::Int64 || type == DType::Float64;
  return {
      .dtype = type, .extents = std::move(extents), .low = has_sign && !positive ? -9.0 : 1.0, .high = 9.5};
}

TEST(ExactPointwiseTactics, EveryIntegerTypeAndOperation) {
  using C = PointwiseCode;
  for (const DType type : kIntegers) {
    SCOPED_TRACE(dtype_name(type));
    for (const C code : {C::Add, C::Sub, C::Mul, C::Div, C::Mod, C::FMod, C::Min, C::Max, C::Equal, C::Less,
                         C::GreaterOrEqual, C::BitwiseAnd, C::BitwiseXor, C::ShiftLeft, C::Pow})
      EXPECT_GE(check_layer(exact_pointwise_tactics(),
                            {.op = Pointwise{code},
                             .inputs = {exact_numbers(type, {3, 1, 7}), exact_numbers(type, {5, 7}, true)}}),
                1);
    for (const C code : {C::Abs, C::Neg, C::Sign, C::Square, C::BitwiseNot, C::Relu})
      EXPECT_GE(check_layer(exact_pointwise_tactics(),
                            {.op = Pointwise{code}, .inputs = {exact_numbers(type, {1300})}}),
                1);
    EXPECT_GE(check_layer(exact_pointwise_tactics(), {.op = Pointwise{C::Where},
                                                      .inputs = {{DType::Bool, {4, 1}, false, 0, 1.9},
                                                                 exact_numbers(type, {}),
                                                                 exact_numbers(type, {4, 600})}}),
              1);
  }
}

// Sums and products wrap around, comparisons see all bits: numbers from the whole range of a type.
TEST(ExactPointwiseTactics, NumbersOfTheWholeRange) {
  using C = PointwiseCode;
  struct Range {
    DType type;
    double low, high;
  };
  const Range ranges[] = {
      {DType::Int8, -128, 127.9},      {DType::UInt8, 0, 255.9},          {DType::Int16, -32768, 32767.9},
      {DType::UInt16, 0, 65535.9},     {DType::Int32, -0x1p31, 0x1p31},   {DType::UInt32, 0, 0x1p32 - 1},
      {DType::Int64, -0x1p63, 0x1p63}, {DType::UInt64, 0, 0x1.fffffep63}, {DType::Float64, -1e300, 1e300}};
  for (const auto& [type, low, high] : ranges) {
    SCOPED_TRACE(dtype_name(type));
    const CheckedInput a{.dtype = type, .extents = {3, 700}, .low = low, .high = high},
        b{.dtype = type, .extents = {700}, .low = low, .high = high};
    for (const C code : {C::Add, C::Sub, C::Mul, C::Div, C::Min, C::Max, C::PRelu, C::Equal, C::Less,
                         C::LessOrEqual, C::Greater, C::GreaterOrEqual})
      EXPECT_GE(check_layer(exact_pointwise_tactics(), {.op = Pointwise{code}, .inputs = {a, b}}), 1);
    for (const C code : {C::Identity, C::Abs, C::Neg, C::Sign, C::Square, C::Relu})
      EXPECT_GE(check_layer(exact_pointwise_tactics(), {.op = Pointwise{code}, .inputs = {a}}), 1);
    EXPECT_GE(check_layer(exact_pointwise_tactics(), {.op = Pointwise{C::Clip, -100, 1e6f}, .inputs = {a}}),
              1);
    EXPECT_GE(
        check_layer(exact_pointwise_tactics(),
                    {.op = PointwiseChain{PointwiseProgram::parse("Less(0,1) Where(2,1,0) Add(3,0)", 2)},
                     .inputs = {a, b}}),
        1);
    if (type == DType::Float64) continue;
    for (const C code : {C::BitwiseAnd, C::BitwiseOr, C::BitwiseXor, C::ShiftLeft, C::ShiftRight})
      EXPECT_GE(check_layer(exact_pointwise_tactics(), {.op = Pointwise{code}, .inputs = {a, b}}), 1);
  }
}

// Rows of a few elements: a piece holds many of them, and begins and ends inside of one.
TEST(ExactPointwiseTactics, ShortRows) {
  for (const DType type : {DType::Int32, DType::Float64})
    for (const Extents& other :
         std::vector<Extents>{{71, 1, 3}, {8, 1}, {71, 8, 1}, {71, 1, 1}, {3}, {}, {1, 8, 3}, {71, 8, 3}}) {
      SCOPED_TRACE(to_string(other));
      EXPECT_GE(check_layer(exact_pointwise_tactics(),
                            {.op = PointwiseChain{PointwiseProgram::parse("Mul(0,1) Sub(2,0) Add(3,2)", 2)},
                             .inputs = {exact_numbers(type, {71, 8, 3}), exact_numbers(type, other)}}),
                1);
    }
}

TEST(ExactPointwiseTactics, LogicOfDoublesAndBools) {
  using C = PointwiseCode;
  const CheckedInput doubles{.dtype = DType::Float64, .extents = {2, 300}, .low = -2, .high = 2};
  for (const char* logic : {"And", "Or", "Xor"})
    EXPECT_GE(check_layer(exact_pointwise_tactics(),
                          {.op = PointwiseChain{PointwiseProgram::parse(
                               "Less(0,1) Greater(0,1) " + std::string(logic) + "(2,3) Not(4)", 2)},
                           .inputs = {doubles, doubles}}),
              1);
  for (const C code : {C::IsNaN, C::Reciprocal, C::Sqrt, C::Floor, C::Round, C::Sigmoid, C::Erf})
    EXPECT_GE(check_layer(exact_pointwise_tactics(), {.op = Pointwise{code}, .inputs = {doubles}}), 1);
  EXPECT_GE(check_layer(exact_pointwise_tactics(), {.op = Pointwise{C::IsInf, 1, 1}, .inputs = {doubles}}),
            1);
}

// Where there is a vector loop it is taken: one element at a time takes five times as long.
TEST(ExactPointwiseTactics, CommonOperationsHaveVectorLoops) {
  using C = PointwiseCode;
  for (const Isa isa : {Isa::Avx2, Isa::Avx512}) {
    const ExactTable& table = exact_table(isa);
    EXPECT_EQ(integer_loop(table, C::Mul, false), table.integers.mul);
    EXPECT_EQ(integer_loop(table, C::Add, true), table.integers.add);
    EXPECT_NE(integer_loop(table, C::Less, true), table.integers.less);
    EXPECT_EQ(real_loop(table, C::Div), table.reals.div);
    EXPECT_EQ(real_test_loop(table, C::Equal), table.tests.equal);
  }
}

TEST(ExactPointwiseTactics, DoublesAndChains) {
  EXPECT_GE(check_layer(exact_pointwise_tactics(), {.op = Pointwise{PointwiseCode::Exp},
                                                    .inputs = {exact_numbers(DType::Float64, {2, 33})}}),
            1);
  EXPECT_GE(
      check_layer(exact_pointwise_tactics(),
                  {.op = PointwiseChain{PointwiseProgram::parse("Add(0,1) Mul(2,0) Less(3,1)", 2)},
                   .inputs = {exact_numbers(DType::Int64, {9, 5}), exact_numbers(DType::Int64, {9, 1})}}),
      1);
}

TEST(ExactPointwiseTactics, DequantizesFloatsOfEightBits) {
  for (const DType type : {DType::Float8E4M3FN, DType::Float8E5M2})
    for (const Extents& scale : {Extents{}, Extents{5}})
      EXPECT_GE(check_layer(exact_pointwise_tactics(),
                            {.op = DequantizeLinear{.axis = 1, .to = DType::Float32},
                             .inputs = {{.dtype = type, .extents = {3, 5, 33}, .low = -9, .high = 9.5},
                                        {.extents = scale, .low = 0.1, .high = 2}}}),
                1);
}

TEST(ExactPointwiseTactics, Casts) {
  for (const DType from : {DType::Int64, DType::UInt64, DType::Float64, DType::Int32, DType::Float32})
    for (const DType to : {DType::Int8, DType::UInt32, DType::Int64, DType::Float64}) {
      if (from == to || (from == DType::Float32 && to != DType::UInt32 && to != DType::Float64)) continue;
      SCOPED_TRACE(std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
      EXPECT_GE(check_layer(exact_pointwise_tactics(),
                            {.op = Cast{to},
                             .inputs = {{.dtype = from, .extents = {3, 700}, .low = 0, .high = 900}}}),
                1);
    }
}

TEST(ExactPointwiseTactics, LeavesFloatsToTheVectors) {
  EXPECT_TRUE(refusals(exact_pointwise_tactics(),
                       {.op = Pointwise{PointwiseCode::Add}, .inputs = {{.extents = {3}}, {.extents = {3}}}})
                  .empty());
}

}  // namespace
}  // namespace lathe::cpu
