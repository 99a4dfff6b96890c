// SPDX-License-Identifier: Apache-2.0
#include "onnx/round_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"

namespace lathe::onnx {
namespace {

std::vector<float> numbers(const RoundedWeights& rounded, int64_t bits, int64_t k) {
  const auto bytes = rounded.integers.data<uint8_t>();
  const Extents& e = rounded.integers.extents();
  const int64_t block = e[2] * 8 / bits;
  std::vector<float> result;
  for (int64_t c = 0; c < e[0]; ++c)
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = (c * e[1] + i / block) * e[2] + i % block * bits / 8;
      const int q = bytes[static_cast<size_t>(at)] >> (i * bits % 8) & ((1 << bits) - 1);
      result.push_back(static_cast<float>(q - (1 << (bits - 1))) *
                       rounded.scales.data<float>()[static_cast<size_t>(c * e[1] + i / block)]);
    }
  return result;
}

double error_of(int64_t bits, int64_t block) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> weights(40 * 100);
  for (float& w : weights) w = normal(random);
  const auto rounded =
      round_weights("w", weights, {.k = 100, .columns = 40, .transposed = true}, {bits, block});
  const std::vector<float> back = numbers(rounded, bits, 100);
  double error = 0, all = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    error += std::pow(static_cast<double>(weights[i] - back[i]), 2);
    all += std::pow(static_cast<double>(weights[i]), 2);
  }
  return std::sqrt(error / all);
}

TEST(RoundWeights, ErrorOfNormalNumbers) {
  // Rounding to the largest magnitude alone: 0.088 for blocks of 32.
  EXPECT_LT(error_of(4, 32), 0.080);
  EXPECT_LT(error_of(4, 16), 0.072);
  EXPECT_LT(error_of(8, 32), 0.006);
}

TEST(RoundWeights, NumbersOfTheGridStay) {
  std::vector<float> weights;
  for (int i = 0; i < 32; ++i) weights.push_back(static_cast<float>(i % 16 - 8) / 4);
  for (const bool transposed : {false, true}) {
    const auto rounded =
        round_weights("w", weights, {.k = 32, .columns = 1, .transposed = transposed}, {4, 32});
    EXPECT_EQ(numbers(rounded, 4, 32), weights);
  }
}

TEST(RoundWeights, ZerosAndShortBlocks) {
  const auto rounded = round_weights("w", std::vector<float>(20 * 3, 0), {.k = 20, .columns = 3}, {4, 16});
  EXPECT_EQ(rounded.integers.extents(), (Extents{3, 2, 8}));
  EXPECT_EQ(numbers(rounded, 4, 20), std::vector<float>(60, 0));
}

TEST(RoundWeights, RefusesNaN) {
  std::vector<float> weights(16, 1);
  weights[3] = std::numeric_limits<float>::quiet_NaN();
  try {
    round_weights("w", weights, {.k = 16, .columns = 1}, {4, 16});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the weights 'w' have an element that is not a finite number"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace lathe::onnx
