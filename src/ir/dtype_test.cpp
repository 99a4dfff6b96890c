// SPDX-License-Identifier: Apache-2.0
#include "ir/dtype.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace lathe {
namespace {

TEST(DType, NamesReadBack) {
  std::set<std::string_view> names;
  for (const DTypeInfo& info : all_dtypes()) {
    EXPECT_EQ(dtype_from_name(info.name), info.dtype);
    EXPECT_EQ(&dtype_info(info.dtype), &info);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
  }
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
}

TEST(DType, NumbersAreOnnx) {
  EXPECT_EQ(static_cast<int>(DType::Float32), 1);
  EXPECT_EQ(static_cast<int>(DType::BFloat16), 16);
  EXPECT_EQ(static_cast<int>(DType::Int4), 22);
}

TEST(DType, BytesRoundUpForPackedTypes) {
  EXPECT_EQ(dtype_bytes(DType::Float32, 3), 12);
  EXPECT_EQ(dtype_bytes(DType::Int4, 3), 2);
  EXPECT_EQ(dtype_bytes(DType::Int2, 5), 2);
  EXPECT_EQ(dtype_bytes(DType::UInt4, 0), 0);
  EXPECT_EQ(dtype_bytes(DType::Bool, 5), 5);
}

TEST(DType, BoolIsNoInteger) {
  EXPECT_FALSE(is_integer(DType::Bool));
  EXPECT_TRUE(is_integer(DType::UInt4));
  EXPECT_FALSE(is_integer(DType::Float16));
  EXPECT_TRUE(is_float(DType::Float8E5M2));
}

TEST(DType, UnknownNumberIsABug) {
  EXPECT_THROW(dtype_info(static_cast<DType>(200)), Error);
}

}  // namespace
}  // namespace lathe
