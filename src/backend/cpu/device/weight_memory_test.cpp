// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/device/weight_memory.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "backend/packing.h"

namespace lathe::cpu {
namespace {

std::vector<std::byte> block(size_t bytes, int value) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(value));
}

TEST(WeightMemory, CopiesLieAlignedAndOutliveIt) {
  MemoryBlobStore store;
  const std::vector<size_t> sizes = {1, 100, 300 << 10, 400 << 10, size_t{40} << 20, 70, size_t{3} << 20};
  for (size_t i = 0; i < sizes.size(); ++i)
    store.put(std::to_string(i), block(sizes[i], static_cast<int>(i + 1)));
  std::vector<HostBuffer> slabs;
  std::vector<std::span<const std::byte>> copies;
  {
    WeightMemory memory(store);
    for (size_t i = 0; i < sizes.size(); ++i) copies.push_back(memory.find(std::to_string(i)));
    slabs = memory.take();
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_EQ(copies[i].size(), sizes[i]);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(copies[i].data()) % 64, 0u);
    EXPECT_NE(copies[i].data(), store.find(std::to_string(i)).data());
    for (const size_t at : {size_t{0}, sizes[i] / 2, sizes[i] - 1})
      EXPECT_EQ(static_cast<size_t>(copies[i][at]), i + 1) << "byte " << at << " of block " << i;
  }
}

TEST(WeightMemory, WhatIsPackedNowStaysWhereItIs) {
  MemoryBlobStore store;
  WeightMemory memory(store);
  EXPECT_TRUE(memory.find("a").empty());
  const auto packed = memory.put("a", block(10, 3));
  EXPECT_EQ(packed.data(), store.find("a").data());
  EXPECT_TRUE(memory.take().empty());
}

}  // namespace
}  // namespace lathe::cpu
