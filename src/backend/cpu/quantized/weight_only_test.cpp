// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/check/few_bit_case.h"
#include "backend/cpu/check/grid_check.h"

namespace lathe::cpu {

TacticFamily weight_only_tactics();

namespace {

void expect_right_weight_only(const FewBitProduct& product, const std::string& name) {
  const auto ran = check_grids(weight_only_tactics(), product.text());
  EXPECT_GE(count_with(ran, name), 2) << product.text();
}

TEST(WeightOnlyProduct, RowsAndSizes) {
  for (const int64_t rows : {1, 2, 3, 4, 7, 70})
    for (const bool transposed : {true, false})
      expect_right_weight_only({.rows = rows, .transposed = transposed},
                               "weight_only_int4_blocks32_half_scales_avx");
  expect_right_weight_only({.columns = 1, .block = 16}, "weight_only_int4_blocks16_half_scales_avx");
  expect_right_weight_only({.depth = 128, .columns = 200}, "weight_only_int4_blocks32_half_scales_avx");
  expect_right_weight_only({.depth = 60, .block = 20}, "weight_only_int4_blocks20_half_scales_avx");
  expect_right_weight_only({.rows = 3, .depth = 384, .columns = 130, .block = 128},
                           "weight_only_int4_blocks128_half_scales_avx");
}

TEST(WeightOnlyProduct, TypesAndZeroPoints) {
  for (const int64_t rows : {1, 5}) {
    expect_right_weight_only({.rows = rows, .equal_zeros = false},
                             "weight_only_int4_blocks32_half_scales_zeros_avx");
    expect_right_weight_only({.rows = rows, .dtype = "int4", .zero = 0},
                             "weight_only_int4_blocks32_half_scales_avx");
    expect_right_weight_only({.rows = rows, .dtype = "int4", .zero = -3},
                             "weight_only_int4_blocks32_half_scales_zeros_avx");
    expect_right_weight_only({.rows = rows, .dtype = "uint8", .zero = 128},
                             "weight_only_int8_blocks32_half_scales_avx");
    expect_right_weight_only({.rows = rows, .dtype = "int8", .zero = 0, .halves = false},
                             "weight_only_int8_blocks32_avx");
    expect_right_weight_only(
        {.rows = rows, .dtype = "uint8", .zero = 3, .equal_zeros = false, .halves = false},
        "weight_only_int8_blocks32_zeros_avx");
  }
}

TEST(WeightOnlyProduct, ScalesPerColumn) {
  for (const bool transposed : {true, false})
    expect_right_weight_only(
        {.rows = 2, .depth = 50, .block = 0, .dtype = "int8", .zero = 0, .transposed = transposed},
        "weight_only_int8_half_scales_avx");
}

TEST(WeightOnlyProduct, Epilogues) {
  expect_right_weight_only({.rows = 3, .epilogue = " epilogue 2 {Add(0,1) Relu(2)}"},
                           "weight_only_int4_blocks32_half_scales_avx");
}

TEST(WeightOnlyProduct, SaysWhatIsInTheWay) {
  FewBitProduct product;
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
