// SPDX-License-Identifier: Apache-2.0
#include "base/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace lathe {
namespace {

std::vector<double> random_times(size_t count) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> times(0, 1);
  std::vector<double> values(count);
  for (double& value : values) value = times(random);
  return values;
}

TEST(Distribution, IsExactWhileThereAreFew) {
  Distribution few;
  for (const double value : {4.0, 1.0, 3.0, 2.0}) few.add(value);
  EXPECT_EQ(few.count(), 4);
  EXPECT_EQ(few.min(), 1);
  EXPECT_EQ(few.max(), 4);
  EXPECT_EQ(few.mean(), 2.5);
  EXPECT_EQ(few.sum(), 10);
  EXPECT_EQ(few.median(), 2.5);
  EXPECT_NEAR(few.standard_deviation(), std::sqrt(1.25), 1e-12);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(few.at_rank(rank), rank + 1);
}

TEST(Distribution, OfNothingIsZero) {
  const Distribution none;
  EXPECT_EQ(none.min(), 0);
  EXPECT_EQ(none.max(), 0);
  EXPECT_EQ(none.median(), 0);
  EXPECT_EQ(none.standard_deviation(), 0);
}

TEST(Distribution, ManyValuesKeepTheirOrderWithinTheStatedError) {
  std::vector<double> values = random_times(100000);
  Distribution many(1000), half(1000), other(1000);
  for (size_t i = 0; i < values.size(); ++i) {
    many.add(values[i]);
    (i % 2 == 0 ? half : other).add(values[i]);
  }
  half.add(other);
  std::sort(values.begin(), values.end());
  for (const Distribution* d : {&many, &half}) {
    EXPECT_EQ(d->count(), 100000);
    EXPECT_EQ(d->min(), values.front());
    EXPECT_EQ(d->max(), values.back());
    EXPECT_NEAR(d->sum() / std::accumulate(values.begin(), values.end(), 0.0), 1, 1e-12);
    for (const int64_t rank : {int64_t{1}, int64_t{500}, int64_t{50000}, int64_t{99000}, int64_t{99998}})
      EXPECT_NEAR(d->at_rank(rank) / values[static_cast<size_t>(rank)], 1, 0.00025 * (d == &half ? 2 : 1));
  }
  EXPECT_NEAR(half.standard_deviation() / many.standard_deviation(), 1, 1e-9);
}

TEST(Distribution, ZerosStayZeros) {
  Distribution zeros(2);
  for (int i = 0; i < 10; ++i) zeros.add(i == 9 ? 1.0 : 0.0);
  EXPECT_EQ(zeros.median(), 0);
  EXPECT_EQ(zeros.max(), 1);
}

TEST(Distribution, SmallOnesThatMeetStayExact) {
  Distribution a(4), b(4);
  for (const double value : {1.0, 2.0}) a.add(value);
  for (const double value : {1.00001, 3.0}) b.add(value);
  a.add(b);
  EXPECT_EQ(a.at_rank(1), static_cast<double>(1.00001f));
}

}  // namespace
}  // namespace lathe
