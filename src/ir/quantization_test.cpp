// SPDX-License-Identifier: Apache-2.0
#include "ir/quantization.h"

#include <gtest/gtest.h>

#include <limits>

namespace lathe {
namespace {

TEST(Quantization, NearestHalfToEvenAndSaturated) {
  const Quantization q{.dtype = DType::Int8, .scales = {0.5f}, .zeros = {1}};
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from<float>({7}, {0.25f, 0.75f, -0.3f, 1e9f, -inf, nan, 63});
  EXPECT_EQ(quantize(x, q).to_int64s(), (std::vector<int64_t>{1, 3, 0, 127, -128, 1, 127}));
}

TEST(Quantization, ThereAndBackPerAxis) {
  const Quantization q{.dtype = DType::UInt8, .scales = {0.5f, 2}, .zeros = {0, 10}, .axis = 1};
  const Tensor x = Tensor::from<float>({2, 2}, {1.5f, -4, 127.5f, 490});
  EXPECT_EQ(quantize(x, q).to_int64s(), (std::vector<int64_t>{3, 8, 255, 255}));
  EXPECT_EQ(dequantize(quantize(x, q), q).to_doubles(), x.to_doubles());
}

TEST(Quantization, SymbolicDimsHaveNoAxis) {
  const Quantization q{.dtype = DType::Int8, .scales = {1, 1}, .zeros = {0, 0}, .axis = 0};
  EXPECT_EQ(quantization_error(q, {Dim(2)}), "");
  EXPECT_NE(quantization_error(q, {Dim::symbol("n")}), "");
}

}  // namespace
}  // namespace lathe
