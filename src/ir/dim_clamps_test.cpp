// SPDX-License-Identifier: Apache-2.0
#include "ir/dim_clamps.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

const Dim kS = Dim::symbol("seq"), kM = Dim::symbol("m");

TEST(DimClamps, GoWhereTheRangesDecide) {
  const SymbolRanges short_ones{{"seq", {.min = 1, .opt = 8, .max = 512}}};
  EXPECT_EQ(without_idle_clamps(min(kS, 512), short_ones), kS);
  EXPECT_EQ(without_idle_clamps(min(kS, 512) * Dim(768), short_ones), kS * Dim(768));
  EXPECT_EQ(without_idle_clamps(min(kS, 511), short_ones), min(kS, 511));
  EXPECT_EQ(without_idle_clamps(max(kS - Dim(1), 0), short_ones), kS - Dim(1));
  EXPECT_EQ(without_idle_clamps(max(kS - Dim(2), 0), short_ones), max(kS - Dim(2), 0));
  const SymbolRanges long_ones{{"seq", {.min = 512, .opt = 512, .max = 1024}}};
  EXPECT_EQ(without_idle_clamps(min(kS, 512), long_ones), Dim(512));
}

TEST(DimClamps, GoInsideOfDivisions) {
  const SymbolRanges ranges{{"seq", {.min = 1, .opt = 8, .max = 512}}};
  EXPECT_EQ(without_idle_clamps(floor_div(min(kS, 512), 2), ranges), floor_div(kS, 2));
  const Dim found = Dim::data_dependent("found", min(kS, 512));
  EXPECT_EQ(without_idle_clamps(found, ranges), Dim::data_dependent("found", kS));
}

TEST(DimClamps, StayWithoutRanges) {
  EXPECT_EQ(without_idle_clamps(min(kS, 512), {}), min(kS, 512));
  const SymbolRanges ranges{{"seq", {.min = 1, .opt = 8, .max = 512}}};
  EXPECT_EQ(without_idle_clamps(min(kM, min(kS, 512)), ranges), min(kM, min(kS, 512)));
  const SymbolRanges huge{{"seq", {.min = 1, .opt = 8, .max = INT64_MAX}}};
  EXPECT_EQ(without_idle_clamps(min(kS * kS, 512), huge), min(kS * kS, 512));
}

TEST(DimClamps, Polynomials) {
  EXPECT_TRUE(is_polynomial(3));
  EXPECT_TRUE(is_polynomial(kS * kM + Dim(1)));
  EXPECT_FALSE(is_polynomial(min(kS, 512)));
  EXPECT_FALSE(is_polynomial(floor_div(kS, 2)));
}

}  // namespace
}  // namespace lathe
