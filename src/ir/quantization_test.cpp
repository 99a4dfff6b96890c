// SPDX-License-Identifier: Apache-2.0
#include "ir/quantization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/block_grid.h"

namespace lathe {
namespace {

TEST(Quantization, NearestHalfToEvenAndSaturated) {
  const Quantization q{.dtype = DType::Int8, .scales = {0.5f}, .zeros = {1}};
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from<float>({7}, {0.25f, 0.75f, -0.3f, 1e9f, -inf, nan, 63});
  EXPECT_EQ(quantize(x, q).to_int64s(), (std::vector<int64_t>{1, 3, 0, 127, -128, 1, 127}));
}

TEST(Quantization, FloatsOfEightBits) {
  const Quantization q{.dtype = DType::Float8E4M3FN, .scales = {0.5f}};
  EXPECT_EQ(quantization_error(q, {Dim(3)}), "");
  EXPECT_EQ(to_string(q), "float8e4m3fn scale [0.5] zero [0]");
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  // In steps: 17 and 19 lie in the middle of 16, 18 and 20; 0x1p-10 between 0 and the least number.
  const Tensor x = Tensor::from<float>({8}, {8.5f, 9.5f, -8.6f, 230, -inf, 0x1p-11f, 0x1.8p-11f, nan});
  const Tensor stored = quantize(x, q);
  EXPECT_EQ(stored.dtype(), DType::Float8E4M3FN);
  const std::vector<double> got = dequantize(stored, q).to_doubles();
  EXPECT_EQ(std::vector<double>(got.begin(), got.end() - 1),
            (std::vector<double>{8, 10, -9, 224, -224, 0, 0x1p-10}));
  EXPECT_TRUE(std::isnan(got.back()));
}

TEST(Quantization, FloatsOfEightBitsPerAxis) {
  const Quantization q{.dtype = DType::Float8E4M3FN, .scales = {1, 2}, .zeros = {0, 0}, .axis = 1};
  const Tensor x = Tensor::from<float>({2, 2}, {1.0625f, 2.25f, 500, 1000});
  EXPECT_EQ(dequantize(quantize(x, q), q).to_doubles(), (std::vector<double>{1, 2.25, 448, 896}));
}

TEST(Quantization, FloatsOfEightBitsHaveNoZeroPointsButBlocks) {
  Quantization q{.dtype = DType::Float8E4M3FN, .scales = {1}, .zeros = {1}};
  EXPECT_EQ(quantization_error(q, {Dim(4)}), "a grid of float8e4m3fn has no zero point but 0");
  q = {.dtype = DType::Float8E4M3FN, .scales = {1, 1}, .zeros = {0, 0}, .axis = 0};
  EXPECT_EQ(quantization_error(q, {Dim(4)}), "");
  q = {.dtype = DType::Float8E5M2};
  EXPECT_NE(quantization_error(q, {Dim(4)}).find("not to float8e5m2"), std::string::npos);
}

TEST(Quantization, ThereAndBackPerAxis) {
  const Quantization q{.dtype = DType::UInt8, .scales = {0.5f, 2}, .zeros = {0, 10}, .axis = 1};
  const Tensor x = Tensor::from<float>({2, 2}, {1.5f, -4, 127.5f, 490});
  EXPECT_EQ(quantize(x, q).to_int64s(), (std::vector<int64_t>{3, 8, 255, 255}));
  EXPECT_EQ(dequantize(quantize(x, q), q).to_doubles(), x.to_doubles());
}

TEST(Quantization, BlocksOfAnAxis) {
  // Blocks of three of six rows.
  const Quantization q{.dtype = DType::Int4, .scales = {1, 2, 0.5f, -1}, .zeros = {0, 0, 1, -1}, .axis = 0};
  const Shape shape = {Dim(4), Dim(2)}, other = {Dim(5), Dim(2)};
  EXPECT_NE(quantization_error(q, shape), "");  // as many scales as rows
  const Shape six = {Dim(6), Dim(2)};
  EXPECT_EQ(quantization_error(q, six), "");
  EXPECT_EQ(block_of(q, six), 3);
  EXPECT_NE(quantization_error(q, other), "");
  EXPECT_EQ(quantization_error(without_numbers(q, six), six), "");
  const Tensor x = Tensor::from<float>({6, 2}, {3, 4, -9, -20, 0, 0, 1, 6, 0, 0, 0, 0});
  EXPECT_EQ(quantize(x, q).to_int64s(), (std::vector<int64_t>{3, 2, -8, -8, 0, 0, 3, -7, 1, -1, 1, -1}));
  const Quantization t = transposed(q, six, {1, 0});
  EXPECT_EQ(t.axis, 1);
  EXPECT_EQ(t.scales, (std::vector<float>{1, 0.5f, 2, -1}));
  const Tensor y = Tensor::from<float>({2, 6}, {3, -9, 0, 1, 0, 0, 4, -20, 0, 6, 0, 0});
  EXPECT_EQ(quantize(y, t).to_int64s(), (std::vector<int64_t>{3, -8, 0, 3, 1, 1, 2, -8, 0, -7, -1, -1}));
}

TEST(Quantization, Slices) {
  const Quantization columns{.dtype = DType::Int8, .scales = {1, 2, 3}, .zeros = {4, 5, 6}, .axis = 1};
  const Shape two_three = {Dim(2), Dim(3)};
  EXPECT_EQ(sliced(columns, two_three, 0, 1, 1), columns);
  const auto last = sliced(columns, two_three, 1, 1, 2);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->scales, (std::vector<float>{2, 3}));
  EXPECT_EQ(last->zeros, (std::vector<int32_t>{5, 6}));
  // Two blocks of four rows, three columns.
  const Quantization blocks{
      .dtype = DType::Int4, .scales = {1, 2, 3, 4, 5, 6}, .zeros = {0, 0, 0, 0, 0, 0}, .axis = 0};
  const Shape eight_three = {Dim(8), Dim(3)};
  EXPECT_EQ(block_of(blocks, eight_three), 4);
  const auto part = sliced(blocks, eight_three, 1, 1, 2);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->scales, (std::vector<float>{2, 3, 5, 6}));
  EXPECT_FALSE(sliced(blocks, eight_three, 0, 0, 4));
}

TEST(Quantization, SymbolicDimsHaveNoAxis) {
  const Quantization q{.dtype = DType::Int8, .scales = {1, 1}, .zeros = {0, 0}, .axis = 0};
  EXPECT_EQ(quantization_error(q, {Dim(2)}), "");
  EXPECT_NE(quantization_error(q, {Dim::symbol("n")}), "");
}

}  // namespace
}  // namespace lathe
