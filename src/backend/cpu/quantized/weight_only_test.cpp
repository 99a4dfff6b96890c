// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/check/few_bit_case.h"
#include "backend/cpu/check/grid_check.h"
#include "backend/cpu/device/machine.h"
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

// More indices of k with one scale than have one unit.
TEST(WeightOnlyProduct, LongBlocks) {
  for (const int64_t rows : {1, 2, 4})
    for (const int64_t depth : {300, 128, 1030})
      expect_right_weight_only({.rows = rows, .depth = depth, .block = 0, .dtype = "int8", .zero = 0},
                               "weight_only_int8_half_scales_avx");
}

// The kernels of this machine, each on rows whose numbers are of very different sizes.
std::vector<const FewBitTable*> tables() {
  const Machine machine = make_machine(read_cpu_info(), {}, 1);
  std::vector<const FewBitTable*> tables = {&few_bit_table_avx2()};
  if (machine.has(CpuFeature::AvxVnni)) tables.push_back(&few_bit_table_avxvnni());
  if (machine.has(CpuFeature::Avx512)) tables.push_back(&few_bit_table_avx512());
  if (machine.has(CpuFeature::Avx512) && machine.has(CpuFeature::Vnni))
    tables.push_back(&few_bit_table_avx512_vnni());
  return tables;
}

// One panel of weights 7 and 9 in turn around a middle of 8, scales of 1: each result is the alternating sum.
std::vector<float> alternating_sums(const FewBitTable& table, const std::vector<float>& x) {
  const FewBitShape shape{.bits = 4, .depth = static_cast<int64_t>(x.size()), .block = 32};
  std::vector<std::byte> panel(static_cast<size_t>(shape.blocks() * shape.block_bytes(table.panel)));
  for (int64_t b = 0; b < shape.blocks(); ++b) {
    std::byte* at = panel.data() + b * shape.block_bytes(table.panel);
    const float one = 1;
    for (int64_t c = 0; c < table.panel; ++c, at += 4) std::memcpy(at, &one, 4);
    for (int64_t w = 0; w < table.panel * shape.groups(); ++w, at += 4) std::memset(at, 0x79, 4);
  }
  std::vector<float> prepared(static_cast<size_t>(shape.padded_depth()) + 16),
      sums(static_cast<size_t>(table.sum_count(shape))), out(static_cast<size_t>(table.panel));
  table.prepare(shape, x.data(), prepared.data(), sums.data());
  table.multiply(shape, {.x = prepared.data(), .sums = sums.data(), .rows = 1}, panel.data(), out.data(),
                 table.panel);
  return out;
}

TEST(FewBitTables, NumbersOfAllSizes) {
  for (const FewBitTable* table : tables()) {
    SCOPED_TRACE(table->name);
    for (const float scale : {1.0f, 1e-30f, 1e30f}) {
      std::vector<float> x(64);
      double expected = 0, magnitudes = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = scale * (i % 5 == 0 ? 1.0f : 1e-3f) * static_cast<float>(static_cast<int>(i * 37 % 64) - 31);
        expected += (i % 2 == 0 ? 1 : -1) * static_cast<double>(x[i]);
        magnitudes += std::abs(static_cast<double>(x[i]));
      }
      for (const float y : alternating_sums(*table, x))
        EXPECT_NEAR(static_cast<double>(y), expected, 16 * magnitudes * std::pow(2.0, -22)) << scale;
    }
  }
}

// The sums of q * x and of x are 140,000 here, their difference some hundreds.
TEST(FewBitTables, LongSumsOfPositiveNumbersKeepTheirDigits) {
  const FewBitShape shape{.bits = 8, .depth = 1848, .block = 1848};
  const auto weight = [](int64_t k, int64_t column) { return (k * 7 + column * 3) % 17 - 8; };
  for (const FewBitTable* table : tables()) {
    SCOPED_TRACE(table->name);
    std::vector<std::byte> panel(static_cast<size_t>(shape.block_bytes(table->panel)));
    const std::vector<float> scales(static_cast<size_t>(table->panel), 1.0f);
    std::memcpy(panel.data(), scales.data(), scales.size() * 4);
    std::byte* const words = panel.data() + table->panel * 4;
    std::vector<float> x, prepared(static_cast<size_t>(shape.padded_depth()) + 16),
        sums(static_cast<size_t>(table->sum_count(shape))), y(static_cast<size_t>(table->panel));
    for (int64_t k = 0; k < shape.depth; ++k) {
      x.push_back(0.6f + static_cast<float>(k * 5 % 11) / 110);
      for (int64_t c = 0; c < table->panel; ++c)
        words[(k / 4 * table->panel + c) * 4 + k % 4] = static_cast<std::byte>(128 + weight(k, c));
    }
    table->prepare(shape, x.data(), prepared.data(), sums.data());
    table->multiply(shape, {.x = prepared.data(), .sums = sums.data(), .rows = 1}, panel.data(), y.data(),
                    table->panel);
    for (int64_t c = 0; c < table->panel; ++c) {
      double expected = 0;
      for (int64_t k = 0; k < shape.depth; ++k)
        expected += static_cast<double>(weight(k, c)) * double{x[static_cast<size_t>(k)]};
      EXPECT_NEAR(y[static_cast<size_t>(c)], expected, 0.02);
    }
  }
}

TEST(FewBitTables, ZerosAndWhatIsNoNumber) {
  for (const FewBitTable* table : tables()) {
    SCOPED_TRACE(table->name);
    EXPECT_EQ(alternating_sums(*table, std::vector<float>(64, 0.0f))[0], 0);
    EXPECT_NEAR(alternating_sums(*table, std::vector<float>(64, 1e-44f))[0], 0, 1e-41);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x(64, 1.0f);
      x[40] = bad;
      EXPECT_FALSE(std::isfinite(alternating_sums(*table, x)[0])) << bad;
    }
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
