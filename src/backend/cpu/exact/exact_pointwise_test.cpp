// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

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
