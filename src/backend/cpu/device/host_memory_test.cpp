// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/device/host_memory.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/error.h"

namespace lathe::cpu {
namespace {

TEST(HostBuffer, SizesFromNoneToMoreThanThereIs) {
  EXPECT_EQ(HostBuffer(0).begin(), nullptr);
  for (const size_t bytes : {size_t{1}, size_t{1} << 20, (size_t{2} << 20) + 1}) {
    const HostBuffer buffer(bytes);
    buffer.begin()[0] = buffer.begin()[bytes - 1] = std::byte{1};
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.begin()) % 4096, 0u);
    EXPECT_EQ(buffer.bytes(), bytes);
  }
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - (size_t{3} << 20), SIZE_MAX / 2})
    EXPECT_THROW(HostBuffer{bytes}, Error) << bytes;
}

}  // namespace
}  // namespace lathe::cpu
