// SPDX-License-Identifier: Apache-2.0
#include "base/aligned_bytes.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(AlignedBytes, KeepsTheContentsOfAnySize) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{65}, (size_t{4} << 20) - 1, size_t{4} << 20, (size_t{9} << 20) + 3}) {
    std::vector<std::byte> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 4096);
    const std::vector<std::byte> copy = bytes;
    const AlignedBytes aligned(std::move(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned.bytes().data()) % 64, 0u);
    EXPECT_TRUE(std::equal(copy.begin(), copy.end(), aligned.bytes().begin(), aligned.bytes().end())) << size;
  }
}

TEST(AlignedBytes, OtherMemoryStaysAsItIs) {  // small blocks share their pages with others
  std::vector<std::vector<std::byte>> others(200, std::vector<std::byte>(3000, std::byte{1}));
  for (int i = 0; i < 50; ++i)
    AlignedBytes(std::vector<std::byte>(5000 + static_cast<size_t>(i), std::byte{2}));
  AlignedBytes(std::vector<std::byte>(size_t{5} << 20, std::byte{2}));
  for (const auto& other : others)
    EXPECT_TRUE(std::all_of(other.begin(), other.end(), [](std::byte b) { return b == std::byte{1}; }));
}

}  // namespace
}  // namespace lathe
