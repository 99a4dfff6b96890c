// SPDX-License-Identifier: Apache-2.0
#include "passes/shuffle_map.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

const Dim B = Dim::symbol("batch"), S = Dim::symbol("seq");

TEST(ShuffleMap, KeepsTheHeadSplitAsItIs) {
  ShuffleMap map({B, S, 768});
  ASSERT_TRUE(map.reshape({B, S, 12, 64}));
  map.transpose({0, 2, 1, 3});
  const auto chain = map.shortest();
  EXPECT_EQ(chain.length(), 2);
  EXPECT_EQ(*chain.before, (Shape{B, S, 12, 64}));
  EXPECT_EQ(*chain.perm, (Ints{0, 2, 1, 3}));
}

// Self-attention as torch exports it, sequence first: six nodes are a head split.
TEST(ShuffleMap, SequenceFirstAttentionIsAHeadSplit) {
  ShuffleMap map({B, S, 768});
  map.transpose({1, 0, 2});
  ASSERT_TRUE(map.reshape({S, B * 12, 64}));
  map.transpose({1, 0, 2});
  ASSERT_TRUE(map.reshape({B, 12, S, 64}));
  const auto chain = map.shortest();
  EXPECT_EQ(*chain.before, (Shape{B, S, 12, 64}));
  EXPECT_EQ(*chain.perm, (Ints{0, 2, 1, 3}));
  EXPECT_FALSE(chain.after);
}

TEST(ShuffleMap, ThereAndBackIsNothing) {
  ShuffleMap map({B, 12, S, 64});
  map.transpose({0, 2, 1, 3});
  ASSERT_TRUE(map.reshape({B, S, 768}));
  ASSERT_TRUE(map.reshape({B, S, 12, 64}));
  map.transpose({0, 2, 1, 3});
  EXPECT_EQ(map.shortest().length(), 0);
}

TEST(ShuffleMap, MovingDimsOfOneIsAReshape) {
  ShuffleMap map({B, 64, 1, 1});
  map.transpose({0, 2, 3, 1});
  const auto chain = map.shortest();
  EXPECT_FALSE(chain.perm);
  EXPECT_TRUE(chain.after);
}

TEST(ShuffleMap, RefusesReshapesAcrossAtoms) {
  ShuffleMap map({4, 6});
  map.transpose({1, 0});
  EXPECT_TRUE(map.reshape({2, 12}));  // 6 = 2 * 3
  ShuffleMap other({S, B});
  EXPECT_FALSE(other.reshape({B, S}));
}

}  // namespace
}  // namespace lathe
