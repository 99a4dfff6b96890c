// SPDX-License-Identifier: Apache-2.0
#include "ir/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lathe {
namespace {

TEST(Tensor, AllocatesAlignedZeros) {
  const Tensor t = Tensor::allocate(DType::Float32, {2, 3});
  EXPECT_EQ(t.bytes().size(), 24u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.bytes().data()) % 64, 0u);
  for (float v : t.data<float>()) EXPECT_EQ(v, 0);
  EXPECT_FALSE(static_cast<bool>(Tensor()));
  EXPECT_TRUE(static_cast<bool>(Tensor::allocate(DType::Int8, {0})));
}

TEST(Tensor, SharedBytesCannotBeWritten) {
  Tensor a = Tensor::from<int32_t>({2}, {1, 2});
  a.mutable_data<int32_t>()[0] = 5;
  Tensor b = a.reshaped({2, 1});
  EXPECT_EQ(b.data<int32_t>()[0], 5);
  EXPECT_THROW(a.mutable_bytes(), Error);
  const auto owner = std::make_shared<std::vector<float>>(4, 1.f);
  Tensor w = Tensor::wrap(DType::Float32, {4}, std::as_bytes(std::span(*owner)), owner);
  EXPECT_THROW(w.mutable_bytes(), Error);
}

TEST(Tensor, WrongSizesAreBugs) {
  EXPECT_THROW(Tensor::from<float>({3}, {1, 2}), Error);
  EXPECT_THROW(Tensor::from<float>({2}, {1, 2}).reshaped({3}), Error);
  EXPECT_THROW(Tensor::from<float>({2}, {1, 2}).data<double>(), Error);
  EXPECT_THROW(Tensor::wrap(DType::Float32, {2}, {}, nullptr), Error);
  EXPECT_THROW(Tensor::from_doubles(DType::Int8, {2}, {}), Error);
  EXPECT_THROW(Tensor::allocate(DType::Float64, {int64_t{1} << 62}), Error);
}

TEST(Tensor, EveryTypeWidensAndNarrows) {
  const std::vector<double> values = {0, 1, 3, 6};
  for (const DTypeInfo& info : all_dtypes()) {
    const Tensor t = Tensor::from_doubles(info.dtype, {4}, values);
    std::vector<double> expected = values;
    if (info.dtype == DType::Bool) expected = {0, 1, 1, 1};
    if (info.dtype == DType::UInt2) expected = {0, 1, 3, 3};
    if (info.dtype == DType::Int2) expected = {0, 1, 1, 1};
    if (info.dtype == DType::Float8E8M0) expected = {0x1p-127, 1, 4, 8};
    EXPECT_EQ(t.to_doubles(), expected) << info.name;
    EXPECT_EQ(t.to_int64s(), std::vector<int64_t>(expected.begin(), expected.end())) << info.name;
  }
}

TEST(Tensor, IntegersSaturateAndTruncate) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values = {-1e30, -1.7, 1.7, 1e30, nan};
  EXPECT_EQ(Tensor::from_doubles(DType::Int8, {5}, values).to_int64s(),
            (std::vector<int64_t>{-128, -1, 1, 127, 0}));
  EXPECT_EQ(Tensor::from_doubles(DType::UInt8, {5}, values).to_int64s(),
            (std::vector<int64_t>{0, 0, 1, 255, 0}));
  EXPECT_EQ(Tensor::from_doubles(DType::Int64, {5}, values).to_int64s(),
            (std::vector<int64_t>{INT64_MIN, -1, 1, INT64_MAX, 0}));
  EXPECT_EQ(Tensor::from_doubles(DType::Int4, {5}, values).to_int64s(),
            (std::vector<int64_t>{-8, -1, 1, 7, 0}));
}

TEST(Tensor, LargeIntegersStayExact) {
  const int64_t big = (int64_t{1} << 60) + 1;
  EXPECT_EQ(Tensor::scalar_i64(big).to_int64s()[0], big);
}

}  // namespace
}  // namespace lathe
