// SPDX-License-Identifier: Apache-2.0
#include "backend/grown_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "backend/body_runs.h"

namespace lathe {
namespace {

class HeapSlots final : public GrownMemory {
 public:
  explicit HeapSlots(int slots) : GrownMemory(slots) {}
  int moves = 0;

 private:
  std::byte* enlarge(size_t slot, size_t bytes) override {
    ++moves;
    buffers_[slot].resize(bytes);
    return buffers_[slot].data();
  }
  std::map<size_t, std::vector<std::byte>> buffers_;
};

TEST(GrownMemory, KeepsWhatLiesInASlotThatGrows) {
  HeapSlots memory(2);
  EXPECT_EQ(memory.addresses()[1], nullptr);
  std::byte* first = memory.reserve(1, 10);
  std::memset(first, 7, 10);
  EXPECT_EQ(memory.reserve(1, 4), first);
  std::byte* second = memory.reserve(1, 1 << 20);
  EXPECT_EQ(second[9], std::byte{7});
  EXPECT_EQ(memory.addresses()[1], second);
  EXPECT_EQ(memory.addresses()[0], nullptr);
  EXPECT_GE(memory.bytes(), size_t{1} << 20);
}

// A value that grows by a row in each step of a loop is moved as often as its size doubles, about.
TEST(GrownMemory, MovesNowAndThen) {
  HeapSlots memory(1);
  for (size_t step = 1; step <= 1000; ++step) memory.reserve(0, step * 1000);
  EXPECT_LT(memory.moves, 20);
  EXPECT_LT(memory.bytes(), size_t{1500 * 1000});
}

TEST(GrownMemory, HasMemoryForNothing) {
  HeapSlots memory(1);
  EXPECT_NE(memory.reserve(0, 0), nullptr);
}

TEST(KeptShapes, KeepsTheLastOnesUsed) {
  KeptShapes<int> kept;
  int prepared = 0;
  const auto get = [&](int64_t key) { return kept.get({key}, [&] { return ++prepared; }); };
  EXPECT_EQ(get(10), 1);
  EXPECT_EQ(get(20), 2);
  EXPECT_EQ(get(10), 1);
  for (int64_t key = 30; key < 60; key += 10) get(key);  // one more than are kept
  EXPECT_EQ(get(10), 1);
  EXPECT_EQ(get(20), 6);
}

}  // namespace
}  // namespace lathe
