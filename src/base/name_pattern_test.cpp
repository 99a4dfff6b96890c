// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace lathe {
namespace {

TEST(NamePattern, AStarStandsForAnyText) {
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("*", "/conv1/Conv"));
  EXPECT_TRUE(matches_pattern("/layer*/Conv", "/layer1/layer1.0/Conv"));
  EXPECT_TRUE(matches_pattern("*conv*Relu*", "a conv b Relu"));
  EXPECT_TRUE(matches_pattern("a*ba", "ababa"));
  EXPECT_FALSE(matches_pattern("/layer*/Conv", "/layer1/Relu"));
  EXPECT_FALSE(matches_pattern("ab*ba", "aba"));  // the two do not share the b
}

TEST(NamePattern, WithoutAStarItIsTheName) {
  EXPECT_TRUE(matches_pattern("conv", "conv"));
  EXPECT_FALSE(matches_pattern("conv", "conv1"));
  EXPECT_FALSE(matches_pattern("", "conv"));
  EXPECT_TRUE(matches_pattern("", ""));
}

TEST(NamePattern, ManyStarsTakeNoTime) {
  std::string stars;
  for (int i = 0; i < 1000; ++i) stars += "*a";
  EXPECT_FALSE(matches_pattern(stars, std::string(2000, 'a') + "b"));
}

}  // namespace
}  // namespace lathe
