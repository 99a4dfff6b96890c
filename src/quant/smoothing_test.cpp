// SPDX-License-Identifier: Apache-2.0
#include "quant/smoothing.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Smoothing, RangesOfChannels) {
  ChannelRanges ranges;
  ranges.add(std::vector<float>{1, -2, 3, 5}, 2);
  ranges.add(std::vector<float>{-4, 1}, 2);
  EXPECT_EQ(ranges.ranges(), (std::vector<ValueRange>{{-4, 3}, {-2, 5}}));
}

TEST(Smoothing, FactorsAreBetweenInputsAndWeights) {
  const std::vector<ValueRange> x = {{-1, 64}, {-4, 0}, {0, 0}};
  const std::vector<float> weights = {4, 1, 3}, factors = smoothing_factors(x, weights, 0.5);
  EXPECT_FLOAT_EQ(factors[0], 4);  // sqrt(64) / sqrt(4)
  EXPECT_FLOAT_EQ(factors[1], 2);
  EXPECT_EQ(factors[2], 1);
  EXPECT_EQ(smoothed_range(x, factors), (ValueRange{-2, 16}));
  EXPECT_FLOAT_EQ(smoothing_factors(x, weights, 1)[0], 64);
}

}  // namespace
}  // namespace lathe
