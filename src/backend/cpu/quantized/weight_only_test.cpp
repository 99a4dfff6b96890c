// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/check/few_bit_case.h"
#include "backend/cpu/check/grid_check.h"
#include "backend/cpu/tile/few_bits_table.h"

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
  for (const int64_t depth : {50, 601})  // one piece; three, the last of which is not full
    for (const bool transposed : {true, false})
      expect_right_weight_only(
          {.rows = 2, .depth = depth, .block = 0, .dtype = "int8", .zero = 0, .transposed = transposed},
          "weight_only_int8_half_scales_avx");
}

// The sums of q * x and of x are 140,000 here, their difference some hundreds.
TEST(WeightOnlyProduct, LongSumsOfPositiveNumbersKeepTheirDigits) {
  const FewBitShape shape{.bits = 8, .depth = 1848, .block = 1848};
  const FewBitTable& table = few_bit_table_avx2();
  const auto weight = [](int64_t k, int64_t column) { return (k * 7 + column * 3) % 17 - 8; };
  std::vector<std::byte> panel(static_cast<size_t>(shape.block_bytes(table.panel)));
  const std::vector<float> scales(static_cast<size_t>(table.panel), 1.0f);
  std::memcpy(panel.data(), scales.data(), scales.size() * 4);
  std::byte* const words = panel.data() + table.panel * 4;
  std::vector<float> x, prepared(static_cast<size_t>(shape.padded_depth()) + 16),
      sums(static_cast<size_t>(shape.pieces())), y(static_cast<size_t>(table.panel));
  for (int64_t k = 0; k < shape.depth; ++k) {
    x.push_back(0.6f + static_cast<float>(k * 5 % 11) / 110);
    for (int64_t c = 0; c < table.panel; ++c)
      words[(k / 4 * table.panel + c) * 4 + k % 4] = static_cast<std::byte>(128 + weight(k, c));
  }
  table.prepare(shape, x.data(), prepared.data(), sums.data());
  table.multiply(shape, {.x = prepared.data(), .sums = sums.data(), .rows = 1}, panel.data(), y.data(),
                 table.panel);
  for (int64_t c = 0; c < table.panel; ++c) {
    double expected = 0;
    for (int64_t k = 0; k < shape.depth; ++k)
      expected += static_cast<double>(weight(k, c)) * double{x[static_cast<size_t>(k)]};
    EXPECT_NEAR(y[static_cast<size_t>(c)], expected, 0.02);
  }
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
