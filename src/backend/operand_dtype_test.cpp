// SPDX-License-Identifier: Apache-2.0
#include "backend/operand_dtype.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

Value value_of(DType dtype, Shape shape) {
  Value value;
  value.dtype = dtype;
  value.shape = std::move(shape);
  return value;
}

TEST(OperandDtype, FollowsTheResultUnlessBroadcastInBfloat16) {
  const Shape whole = {Dim::symbol("n"), 8, 7, 7}, gate = {Dim::symbol("n"), 8, 1, 1};
  const Value same = value_of(DType::Float32, whole), factor = value_of(DType::Float32, gate);
  EXPECT_EQ(operand_dtype(same, whole, DType::BFloat16), DType::BFloat16);
  EXPECT_EQ(operand_dtype(factor, whole, DType::BFloat16), DType::Float32);
  EXPECT_EQ(operand_dtype(factor, whole, DType::Float16), DType::Float16);
  EXPECT_EQ(operand_dtype(factor, gate, DType::BFloat16), DType::BFloat16);
  EXPECT_EQ(operand_dtype(value_of(DType::BFloat16, gate), whole, DType::BFloat16), DType::BFloat16);
  EXPECT_EQ(operand_dtype(value_of(DType::Bool, whole), whole, DType::Float16), DType::Bool);
}

}  // namespace
}  // namespace lathe
