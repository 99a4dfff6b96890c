// SPDX-License-Identifier: Apache-2.0
#include "memory/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace lathe {
namespace {

void expect_disjoint(const std::vector<ArenaBlock>& blocks, const ArenaLayout& layout) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(layout.offsets[i] % kArenaAlignment, 0);
    EXPECT_LE(layout.offsets[i] + blocks[i].bytes, layout.bytes);
    for (size_t k = 0; k < i; ++k) {
      const bool together = blocks[i].first <= blocks[k].last && blocks[k].first <= blocks[i].last;
      const bool overlap = layout.offsets[i] < layout.offsets[k] + blocks[k].bytes &&
                           layout.offsets[k] < layout.offsets[i] + blocks[i].bytes;
      EXPECT_FALSE(together && overlap) << i << " and " << k;
    }
  }
}

TEST(Arena, ChainTakesTheTwoLargestNeighbours) {
  const std::vector<ArenaBlock> blocks = {{100, 0, 1}, {200, 1, 2}, {100, 2, 3}, {50, 3, 4}};
  const ArenaLayout layout = lay_out_arena(blocks);
  expect_disjoint(blocks, layout);
  EXPECT_EQ(layout.bytes, 128 + 256);
  EXPECT_EQ(layout.lower_bound, 128 + 256);
}

TEST(Arena, SmallestGapIsTaken) {
  // Two gaps are free when the last block comes: of 256 and of 128 bytes; it needs 128.
  const std::vector<ArenaBlock> blocks = {{1024, 0, 9}, {256, 0, 1}, {512, 0, 9},
                                          {128, 0, 1},  {64, 0, 9},  {128, 2, 9}};
  const ArenaLayout layout = lay_out_arena(blocks);
  expect_disjoint(blocks, layout);
  EXPECT_EQ(layout.bytes, 1024 + 256 + 512 + 128 + 64);
}

TEST(Arena, EmptyBlocksCostNothing) {
  const ArenaLayout layout = lay_out_arena(std::vector<ArenaBlock>{{0, 0, 5}, {64, 0, 5}, {0, 2, 3}});
  EXPECT_EQ(layout.bytes, 64);
  EXPECT_EQ(lay_out_arena({}).bytes, 0);
}

TEST(Arena, RandomBlocksNeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaBlock> blocks(1 + random() % 40);
    for (ArenaBlock& b : blocks) {
      b.bytes = static_cast<int64_t>(random() % 1000);
      b.first = static_cast<int>(random() % 30);
      b.last = b.first + static_cast<int>(random() % 8);
    }
    const ArenaLayout layout = lay_out_arena(blocks);
    expect_disjoint(blocks, layout);
    EXPECT_GE(layout.bytes, layout.lower_bound);
  }
}

}  // namespace
}  // namespace lathe
