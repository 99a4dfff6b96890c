// SPDX-License-Identifier: Apache-2.0
#include "ranges.h"

#include <gtest/gtest.h>

namespace lathe::onnxruntime_ep {
namespace {

using v1::Dims;

InputRange range(Dims min, Dims max) {
  return {.min = std::move(min), .max = std::move(max)};
}

TEST(Ranges, TheFirstIsFromOneToWhatWasSeen) {
  const InputRange first = widen(std::nullopt, {-1, 3}, {4, 3}, 0);
  EXPECT_EQ(first.min, (Dims{1, 3}));
  EXPECT_EQ(first.opt, (Dims{4, 3}));
  EXPECT_EQ(first.max, (Dims{4, 3}));
  EXPECT_EQ(widen(std::nullopt, {-1, 3}, {4, 3}, kRangeAttempts - 1).min, (Dims{4, 3}));
  EXPECT_EQ(widen(std::nullopt, {-1}, {0}, 0).min, (Dims{0}));
}

TEST(Ranges, GrowthLeavesRoomFirst) {
  const InputRange old = range({1, 3}, {4, 3});
  EXPECT_EQ(widen(old, {-1, 3}, {5, 3}, 0).max, (Dims{10, 3}));
  EXPECT_EQ(widen(old, {-1, 3}, {5, 3}, 1).max, (Dims{69, 3}));
  EXPECT_EQ(widen(old, {-1, 3}, {5, 3}, 2).max, (Dims{5, 3}));
  EXPECT_EQ(widen(old, {-1, 3}, {5, 3}, 5).min, (Dims{1, 3}));
}

TEST(Ranges, WhatFittedBeforeFitsAfterwards) {
  const InputRange old = range({2, 8}, {4, 9});
  for (int attempt = 0; attempt < kRangeAttempts; ++attempt) {
    const InputRange next = widen(old, {-1, -1}, {1, 12}, attempt);
    EXPECT_TRUE(next.holds({1, 12})) << attempt;
    EXPECT_TRUE(next.holds({4, 8})) << attempt;
    EXPECT_FALSE(next.holds({5, 8})) << attempt;
    EXPECT_FALSE(next.holds({1})) << attempt;
  }
}

TEST(Ranges, ElementsMayBeNegativeAndAreNotWidenedToOne) {
  const InputRange first = widen(std::nullopt, {}, {-1, 6}, 0);
  EXPECT_EQ(first.min, (Dims{-1, 6}));
  EXPECT_EQ(widen(first, {}, {-1, 3}, 0).min, (Dims{-1, 3}));
  EXPECT_EQ(widen(first, {}, {-1, 3}, 0).max, (Dims{-1, 6}));
}

// A rank that changes, which the engine will refuse, starts again.
TEST(Ranges, AnotherRankForgetsTheOldRange) {
  EXPECT_EQ(widen(range({1}, {4}), {-1, -1}, {2, 2}, 0).max, (Dims{2, 2}));
}

}  // namespace
}  // namespace lathe::onnxruntime_ep
