// SPDX-License-Identifier: Apache-2.0
#include "quant/observer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"

namespace lathe {
namespace {

std::vector<float> normal(size_t count, float deviation) {
  std::mt19937 random(3);
  std::normal_distribution<float> distribution(0, deviation);
  std::vector<float> values(count);
  for (float& v : values) v = distribution(random);
  return values;
}

TEST(RangeObserver, ExtremesOfAllSamples) {
  RangeObserver observer;
  observer.add(std::vector<float>{0.5f, -2});
  observer.add(std::vector<float>{100, 3});  // seven doublings
  EXPECT_EQ(observer.range({}), (ValueRange{-2, 100}));
  EXPECT_EQ(observer.count(), 4);
}

TEST(RangeObserver, WhatIsNotFiniteIsCountedApart) {
  RangeObserver observer;
  observer.add(
      std::vector<float>{1, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()});
  EXPECT_EQ(observer.not_finite(), 2);
  EXPECT_EQ(observer.count(), 1);
  EXPECT_EQ(observer.range({}), (ValueRange{1, 1}));
  EXPECT_EQ(RangeObserver().range({}), ValueRange{});
}

// One element of 10,000 is far away: max covers it, the others do not.
TEST(RangeObserver, OutliersAreCutOff) {
  std::vector<float> values = normal(10000, 1);
  values[5000] = 500;
  RangeObserver observer;
  observer.add(values);
  EXPECT_EQ(observer.range({}).high, 500);
  const ValueRange percentile = observer.range({.method = CalibrationMethod::Percentile, .percentile = 99.9});
  EXPECT_GT(percentile.high, 2.5f);
  EXPECT_LT(percentile.high, 4.5f);
  EXPECT_LT(percentile.low, -2.5f);
  const ValueRange entropy = observer.range({.method = CalibrationMethod::Entropy});
  EXPECT_LT(entropy.high, 100);
}

// A normal distribution loses least when about four deviations are covered, not the rare larger ones.
TEST(RangeObserver, TheLeastSquaredErrorCutsTails) {
  RangeObserver observer;
  observer.add(normal(1000000, 2));
  const ValueRange range = observer.range({.method = CalibrationMethod::Mse});
  EXPECT_GT(range.high, 6.5f);
  EXPECT_LT(range.high, observer.extremes().high);
}

// Half of the elements are zeros: they do not make the divergence prefer a narrow range.
TEST(RangeObserver, ZerosBehindAReluDoNotCount) {
  std::vector<float> values = normal(100000, 1);
  for (float& v : values) v = std::max(v, 0.0f);
  RangeObserver observer;
  observer.add(values);
  EXPECT_GT(observer.range({.method = CalibrationMethod::Entropy}).high, 3.0f);
}

TEST(RangeObserver, FewElementsAreAllCovered) {
  RangeObserver observer;
  observer.add(std::vector<float>{1, 2, 50});
  EXPECT_EQ(observer.range({.method = CalibrationMethod::Entropy}), (ValueRange{1, 50}));
}

TEST(RangeObserver, NamesOfMethods) {
  EXPECT_EQ(calibration_method_from_name("entropy"), CalibrationMethod::Entropy);
  try {
    calibration_method_from_name("median");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("use max, percentile, entropy or mse"), std::string::npos);
  }
}

TEST(ChannelMeans, OfImages) {
  ChannelMeans means;
  means.add(std::vector<float>{1, 3, 10, 20, 5, 7, 0, 2}, {2, 2, 2});
  means.add(std::vector<float>{4, 4, 8, 8}, {1, 2, 2});
  EXPECT_EQ(means.means(), (std::vector<double>{4, 8}));
}

}  // namespace
}  // namespace lathe
