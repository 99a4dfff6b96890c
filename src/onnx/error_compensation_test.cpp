// SPDX-License-Identifier: Apache-2.0
#include "onnx/error_compensation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace lathe::onnx {
namespace {

// Sums of rows whose elements go together.
InputSums correlated(int64_t k, ThreadPool& pool) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  InputSums inputs{.k = k};
  std::vector<float> rows(static_cast<size_t>(k * 3 * k));
  for (size_t row = 0; row < rows.size(); row += static_cast<size_t>(k)) {
    const float shared = normal(random);
    for (size_t i = 0; i < static_cast<size_t>(k); ++i) rows[row + i] = shared + normal(random) / 2;
  }
  inputs.add(rows, pool);
  return inputs;
}

TEST(ErrorCompensation, RowsAreAFactorOfTheInverse) {
  constexpr int64_t k = 70;  // more than one piece of columns
  ThreadPool pool;
  const InputSums inputs = correlated(k, pool);
  const ErrorSpread spread(inputs, pool);
  double mean = 0;
  for (int64_t i = 0; i < k; ++i) mean += static_cast<double>(inputs.sum(i, i)) / k;
  // transpose(U) * U * H = 1
  for (int64_t i = 0; i < k; i += 7)
    for (int64_t j = 0; j < k; j += 3) {
      double sum = 0;
      for (int64_t m = 0; m < k; ++m) {
        double inverse = 0;
        for (int64_t r = 0; r <= std::min(i, m); ++r)
          inverse += static_cast<double>(spread.row(r)[static_cast<size_t>(i - r)]) *
                     static_cast<double>(spread.row(r)[static_cast<size_t>(m - r)]);
        sum += inverse * (static_cast<double>(inputs.sum(m, j)) + (m == j ? mean / 100 : 0));
      }
      EXPECT_NEAR(sum, i == j ? 1 : 0, 1e-3) << i << ", " << j;
    }
}

TEST(ErrorCompensation, InputsThatAreEqualTakeTheWholeError) {
  ThreadPool pool;
  InputSums inputs{.k = 2};
  inputs.add(std::vector<float>{1, 1, -2, -2}, pool);
  const ErrorSpread spread(inputs, pool);
  // An error of 0.4 in the first weight makes the second 0.4 larger, but for the damping.
  EXPECT_NEAR(-0.4f / spread.row(0)[0] * spread.row(0)[1], 0.4f, 0.01f);
}

TEST(ErrorCompensation, ErrorsStayInTheirPiece) {
  constexpr int64_t k = kPiece + 40;
  ThreadPool pool;
  InputSums inputs{.k = k};
  inputs.add(std::vector<float>(k, 1), pool);
  EXPECT_EQ(inputs.sum(kPiece + 3, kPiece + 39), 1);
  const ErrorSpread spread(inputs, pool);
  EXPECT_EQ(spread.row(kPiece - 1).size(), 1u);
  EXPECT_EQ(spread.row(kPiece).size(), 40u);
  EXPECT_LT(spread.row(kPiece)[39], 0);  // a weight that lost something makes the others larger
}

TEST(ErrorCompensation, SettlingLowersTheErrorOfTheOutput) {
  constexpr int64_t k = 70;
  ThreadPool pool;
  const InputSums inputs = correlated(k, pool);
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> weights(k);
  for (float& w : weights) w = normal(random);
  RoundedColumn column{.integers = std::vector<float>(k), .scales = std::vector<float>(k, 0.3f)};
  const auto error = [&] {
    std::vector<float> errors(k);
    for (size_t i = 0; i < k; ++i) errors[i] = weights[i] - column.integers[i] * column.scales[i];
    return output_error(inputs, errors);
  };
  for (size_t i = 0; i < k; ++i)
    column.integers[i] = std::clamp(std::nearbyint(weights[i] / 0.3f), -8.0f, 7.0f);
  const double nearest = error();
  settle(inputs, weights, -8, 7, column);
  const double settled = error();
  EXPECT_LT(settled, 0.5 * nearest);
  for (const float q : column.integers) EXPECT_TRUE(q >= -8 && q <= 7 && q == std::nearbyint(q));
  // No other integer of a single weight is better, but for the damping.
  for (float& q : column.integers)
    for (const float other : {q - 1, q + 1}) {
      if (other < -8 || other > 7) continue;
      const float own = std::exchange(q, other);
      EXPECT_GT(error(), settled - 0.1 * nearest / k);
      q = own;
    }
}

TEST(ErrorCompensation, OutputErrorIsThatOfTheRows) {
  ThreadPool pool;
  InputSums inputs{.k = 2};
  inputs.add(std::vector<float>{1, 2, -3, 1}, pool);
  EXPECT_NEAR(output_error(inputs, std::vector<float>{0.5f, -1}), 1.5 * 1.5 + 2.5 * 2.5, 1e-5);
}

TEST(ErrorCompensation, InputsThatAreZeroChangeNothing) {
  ThreadPool pool;
  InputSums inputs{.k = 3};
  inputs.add(std::vector<float>(6, 0), pool);
  const ErrorSpread spread(inputs, pool);
  EXPECT_EQ(spread.row(0)[1], 0);
  EXPECT_TRUE(std::isfinite(spread.row(2)[0]) && spread.row(2)[0] > 0);
}

}  // namespace
}  // namespace lathe::onnx
