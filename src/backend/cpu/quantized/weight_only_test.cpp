// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/check/grid_check.h"

namespace lathe::cpu {

TacticFamily weight_only_tactics();

namespace {

struct ProductText {
  int64_t rows = 1, depth = 64, columns = 37, block = 32;  // block 0: a scale per column
  std::string dtype = "uint4";
  int32_t zero = 8;
  bool equal_zeros = true, halves = true, transposed = true;
  std::string epilogue;

  std::string grid() const {
    const int64_t blocks = block > 0 ? (depth + block - 1) / block : 1;
    std::string scales, zeros;
    for (int64_t i = 0; i < blocks * columns; ++i) {
      const double scale = (1 + static_cast<double>(i % 7)) / 64;
      scales += (i ? ", " : "") + std::to_string(i % 5 == 4 ? -scale : scale) + (halves ? "" : "1");
      zeros += (i ? ", " : "") + std::to_string(zero + (equal_zeros ? 0 : static_cast<int32_t>(i % 3)));
    }
    if (block == 0) std::erase(scales, '-');
    const bool k_is_last = transposed;
    const int64_t axis = (block > 0) == k_is_last ? 1 : 0;
    return " quantized " + dtype + " scale [" + scales + "] zero [" + zeros + "] axis " +
           std::to_string(axis);
  }

  std::string text() const {
    const std::string k = std::to_string(depth), n = std::to_string(columns), m = std::to_string(rows);
    return "graph \"g\" {\n input %x: float32[" + m + ", " + k + "]\n const %w: float32[" +
           (transposed ? n + ", " + k : k + ", " + n) + "]" + grid() + " = random 3\n const %b: float32[" +
           n + "] = random 4\n %y: float32[" + m + ", " + n + "] = MatMul \"m\" (%x, %w" +
           (epilogue.empty() ? "" : ", %b") + ") {" + (transposed ? "transpose_b=true" : "") + "}" +
           epilogue + "\n output %y\n}\n";
  }
};

void expect_right(const ProductText& product, const std::string& name) {
  const auto ran = check_grids(weight_only_tactics(), product.text());
  EXPECT_GE(count_with(ran, name), 2) << product.text();
}

TEST(WeightOnlyProduct, RowsAndSizes) {
  for (const int64_t rows : {1, 2, 3, 4, 7, 70})
    for (const bool transposed : {true, false})
      expect_right({.rows = rows, .transposed = transposed}, "weight_only_int4_blocks32_half_scales_avx");
  expect_right({.columns = 1, .block = 16}, "weight_only_int4_blocks16_half_scales_avx");
  expect_right({.depth = 128, .columns = 200}, "weight_only_int4_blocks32_half_scales_avx");
  expect_right({.depth = 60, .block = 20}, "weight_only_int4_blocks20_half_scales_avx");
  expect_right({.rows = 3, .depth = 384, .columns = 130, .block = 128},
               "weight_only_int4_blocks128_half_scales_avx");
}

TEST(WeightOnlyProduct, TypesAndZeroPoints) {
  for (const int64_t rows : {1, 5}) {
    expect_right({.rows = rows, .equal_zeros = false}, "weight_only_int4_blocks32_half_scales_zeros_avx");
    expect_right({.rows = rows, .dtype = "int4", .zero = 0}, "weight_only_int4_blocks32_half_scales_avx");
    expect_right({.rows = rows, .dtype = "int4", .zero = -3},
                 "weight_only_int4_blocks32_half_scales_zeros_avx");
    expect_right({.rows = rows, .dtype = "uint8", .zero = 128}, "weight_only_int8_blocks32_half_scales_avx");
    expect_right({.rows = rows, .dtype = "int8", .zero = 0, .halves = false},
                 "weight_only_int8_blocks32_avx");
    expect_right({.rows = rows, .dtype = "uint8", .zero = 3, .equal_zeros = false, .halves = false},
                 "weight_only_int8_blocks32_zeros_avx");
  }
}

TEST(WeightOnlyProduct, ScalesPerColumn) {
  for (const bool transposed : {true, false})
    expect_right({.rows = 2, .depth = 50, .block = 0, .dtype = "int8", .zero = 0, .transposed = transposed},
                 "weight_only_int8_half_scales_avx");
}

TEST(WeightOnlyProduct, Epilogues) {
  expect_right({.rows = 3, .epilogue = " epilogue 2 {Add(0,1) Relu(2)}"},
               "weight_only_int4_blocks32_half_scales_avx");
}

TEST(WeightOnlyProduct, SaysWhatIsInTheWay) {
  ProductText product;
  std::string text = product.text();
  text.replace(text.find("axis 1"), 6, "axis 0");
  text.replace(text.find("[37, 64]"), 8, "[64, 37]");
  text.replace(text.find("%x: float32[1, 64]"), 18, "%x: float32[1, 37]");
  text.replace(text.find("%y: float32[1, 37]"), 18, "%y: float32[1, 64]");
  const auto reasons = grid_refusals(weight_only_tactics(), text);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(
      reasons[0].find("the weights have a scale per index of axis 0 in blocks; sums have one per column or "
                      "block of k"),
      std::string::npos)
      << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
