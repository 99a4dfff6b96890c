// SPDX-License-Identifier: Apache-2.0
#include "quant/narrowing.h"

#include <gtest/gtest.h>

#include <limits>

namespace lathe {
namespace {

TEST(Narrowing, LosesUpToHalfAUnitOfOrdinaryNumbers) {
  for (const DType type : {DType::Float16, DType::BFloat16}) {
    NarrowingObserver seen(type);
    std::vector<float> elements;
    for (int i = 0; i < 1000; ++i) elements.push_back(1 + static_cast<float>(i) / 999);
    seen.add(elements);
    EXPECT_GT(seen.relative_loss(), unit_roundoff(type) / 8);
    EXPECT_LT(seen.relative_loss(), unit_roundoff(type));
  }
}

TEST(Narrowing, LosesWhatIsBelowTheSmallestNumber) {
  NarrowingObserver half(DType::Float16), brain(DType::BFloat16);
  const std::vector<float> elements = {1e-12f, -1e-12f};
  half.add(elements);
  brain.add(elements);
  EXPECT_DOUBLE_EQ(half.relative_loss(), 1);
  EXPECT_LT(brain.relative_loss(), unit_roundoff(DType::BFloat16));
}

TEST(Narrowing, KnowsTheLargestMagnitudeAndIgnoresInfinity) {
  NarrowingObserver seen(DType::Float16);
  seen.add(std::vector<float>{-70000.0f, 3.0f, std::numeric_limits<float>::infinity()});
  EXPECT_EQ(seen.largest(), 70000);
  EXPECT_EQ(largest_finite(DType::Float16), 65504);
  EXPECT_FLOAT_EQ(static_cast<float>(largest_finite(DType::BFloat16)), 3.38953139e38f);
}

TEST(Narrowing, RoundsTensors) {
  const Tensor rounded = rounded_to(DType::Float16, Tensor::from<float>({2}, {2049.0f, 0.5f}));
  EXPECT_EQ(rounded.data<float>()[0], 2048.0f);
  EXPECT_EQ(rounded.data<float>()[1], 0.5f);
}

}  // namespace
}  // namespace lathe
