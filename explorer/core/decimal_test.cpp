// SPDX-License-Identifier: Apache-2.0
#include "explorer/core/decimal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"

namespace lathe::explorer {
namespace {

TEST(ExactSum, GivesTheDigitsOfAHandCalculation) {
  EXPECT_NE(0.1 + 0.2, 0.3);
  EXPECT_EQ(ExactSum().add(0.1).add(0.2).value(), 0.3);
  EXPECT_EQ(ExactSum().add(0.0418519).add(4.49541).add(0.758829).value(), 5.2960909);
  EXPECT_EQ(exact_difference(0.3, 0.1), 0.2);
  EXPECT_EQ(exact_difference(0.1, 0.3), -0.2);
  EXPECT_TRUE(ExactSum().add(1e-7).subtract(1e-7).is_zero());
}

TEST(ExactSum, DoesNotDependOnTheOrder) {
  std::mt19937 random(1);
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<double>(random() % 10000000) / 1e6);
  const auto sum = [&] {
    ExactSum total;
    for (const double v : values) total.add(v);
    return total.value();
  };
  const double first = sum();
  std::shuffle(values.begin(), values.end(), random);
  EXPECT_EQ(sum(), first);
}

TEST(ExactSum, RefusesWhatIsNoTime) {
  EXPECT_THROW(ExactSum().add(std::numeric_limits<double>::infinity()), Error);
  EXPECT_THROW(ExactSum().add(std::numeric_limits<double>::quiet_NaN()), Error);
  EXPECT_THROW(ExactSum().add(1e300), Error);
  EXPECT_EQ(ExactSum().add(1e-30).value(), 0);
}

}  // namespace
}  // namespace lathe::explorer
