// SPDX-License-Identifier: Apache-2.0
#include "ir/dim_clamps.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

const Dim kSeq = Dim::symbol("seq"), kM = Dim::symbol("m");

TEST(DimClamps, GoWhereTheRangesDecide) {
  const SymbolRanges short_ones{{"seq", {.min = 1, .opt = 8, .max = 512}}};
  EXPECT_EQ(without_idle_clamps(min(kSeq, 512), short_ones), kSeq);
  EXPECT_EQ(without_idle_clamps(min(kSeq, 512) * Dim(768), short_ones), kSeq * Dim(768));
  EXPECT_EQ(without_idle_clamps(min(kSeq, 511), short_ones), min(kSeq, 511));
  EXPECT_EQ(without_idle_clamps(max(kSeq - Dim(1), 0), short_ones), kSeq - Dim(1));
  EXPECT_EQ(without_idle_clamps(max(kSeq - Dim(2), 0), short_ones), max(kSeq - Dim(2), 0));
  const SymbolRanges long_ones{{"seq", {.min = 512, .opt = 512, .max = 1024}}};
  EXPECT_EQ(without_idle_clamps(min(kSeq, 512), long_ones), Dim(512));
}

TEST(DimClamps, GoInsideOfDivisions) {
  const SymbolRanges ranges{{"seq", {.min = 1, .opt = 8, .max = 512}}};
  EXPECT_EQ(without_idle_clamps(floor_div(min(kSeq, 512), 2), ranges), floor_div(kSeq, 2));
  const Dim found = Dim::data_dependent("found", min(kSeq, 512));
  EXPECT_EQ(without_idle_clamps(found, ranges), Dim::data_dependent("found", kSeq));
}

TEST(DimClamps, StayWithoutRanges) {
  EXPECT_EQ(without_idle_clamps(min(kSeq, 512), {}), min(kSeq, 512));
  const SymbolRanges ranges{{"seq", {.min = 1, .opt = 8, .max = 512}}};
  EXPECT_EQ(without_idle_clamps(min(kM, min(kSeq, 512)), ranges), min(kM, min(kSeq, 512)));
  const SymbolRanges huge{{"seq", {.min = 1, .opt = 8, .max = INT64_MAX}}};
  EXPECT_EQ(without_idle_clamps(min(kSeq * kSeq, 512), huge), min(kSeq * kSeq, 512));
}

TEST(DimClamps, Polynomials) {
  EXPECT_TRUE(is_polynomial(3));
  EXPECT_TRUE(is_polynomial(kSeq * kM + Dim(1)));
  EXPECT_FALSE(is_polynomial(min(kSeq, 512)));
  EXPECT_FALSE(is_polynomial(floor_div(kSeq, 2)));
}

}  // namespace
}  // namespace lathe
