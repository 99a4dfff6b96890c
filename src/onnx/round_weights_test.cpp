// SPDX-License-Identifier: Apache-2.0
#include "onnx/round_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <tuple>

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

// The squared error of each column of the product over the samples.
std::vector<double> output_errors(const RoundedWeights& rounded, int64_t bits, const InputSums& inputs,
                                  const std::vector<float>& weights) {
  const auto k = static_cast<size_t>(inputs.k);
  const std::vector<float> back = numbers(rounded, bits, inputs.k);
  std::vector<double> errors;
  for (size_t column = 0; column * k < weights.size(); ++column) {
    std::vector<float> lost(k);
    for (size_t i = 0; i < k; ++i) lost[i] = weights[column * k + i] - back[column * k + i];
    errors.push_back(output_error(inputs, lost));
  }
  return errors;
}

TEST(RoundWeights, SamplesNeverMakeTheOutputWorse) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  ThreadPool pool;
  // Few and many rows, inputs that go together more and less, one input that is always zero, and two pieces
  // of inputs.
  for (const auto& [k, rows, shared] : {std::tuple(40, 6, 0.9f), std::tuple(96, 400, 0.5f),
                                        std::tuple(96, 400, 0.0f), std::tuple(1060, 30, 0.7f)}) {
    InputSums inputs{.k = k};
    std::vector<float> x(static_cast<size_t>(k * rows));
    for (size_t row = 0; row < x.size(); row += static_cast<size_t>(k)) {
      const float common = normal(random);
      for (size_t i = 1; i < static_cast<size_t>(k); ++i)
        x[row + i] = shared * common + (1 - shared) * normal(random);
    }
    inputs.add(x, pool);
    const ErrorSpread spread(inputs, pool);
    std::vector<float> weights(static_cast<size_t>(24 * k));
    for (float& w : weights) w = normal(random);
    for (const int64_t bits : {4, 8}) {
      const WeightMatrix matrix{.k = k, .columns = 24, .transposed = true};
      const auto alone =
                     output_errors(round_weights("w", weights, matrix, {bits, 32}), bits, inputs, weights),
                 together = output_errors(round_weights("w", weights, matrix, {bits, 32}, &spread), bits,
                                          inputs, weights);
      for (size_t c = 0; c < alone.size(); ++c)
        EXPECT_LE(together[c], alone[c] * (1 + 1e-4)) << k << " inputs, " << bits << " bits, column " << c;
    }
  }
}

TEST(RoundWeights, SquaresThatAreTooLarge) {
  std::vector<float> weights(16, 1e30f);
  weights[3] = -2e30f;
  const auto rounded = round_weights("w", weights, {.k = 16, .columns = 1}, {4, 16});
  const std::vector<float> back = numbers(rounded, 4, 16);
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(back[i] / weights[i], 1, 0.1) << i;
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
