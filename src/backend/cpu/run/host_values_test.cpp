// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/run/host_values.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lathe::cpu {
namespace {

constexpr TensorType kFloats{DType::Float32, kLinear};

TEST(HostValues, UsesMemoryAgain) {
  HostValues values;
  Tensor first = values.allocate(kFloats, {1000});
  const std::byte* place = first.bytes().data();
  EXPECT_EQ(first.bytes().size(), 4000u);
  const Tensor shared = first;
  first = Tensor();
  EXPECT_NE(values.allocate(kFloats, {1000}).bytes().data(), place);  // somebody still has it
  Tensor second = values.allocate(kFloats, {990});
  second = Tensor();
  EXPECT_GT(values.waiting_bytes(), 0);
}

TEST(HostValues, FindsTheBufferOfTheStepBefore) {
  HostValues values;
  const std::byte* place = values.allocate(kFloats, {1, 16, 1000}).bytes().data();
  EXPECT_EQ(values.allocate(kFloats, {1, 16, 1001}).bytes().data(), place);
}

TEST(HostValues, HasRoomForBlocks) {
  HostValues values;
  const Tensor x = values.allocate({DType::Float32, kBlocked16}, {1, 3, 4, 4});
  EXPECT_EQ(x.bytes().size(), size_t{3 * 16 * 4});
  std::memset(place_of(x), 1, static_cast<size_t>(storage_bytes(DType::Float32, {1, 3, 4, 4}, kBlocked16)));
}

// What grows in each of many steps leaves no more behind than it takes itself.
TEST(HostValues, KeepsNoMoreThanWasUsedAtOnce) {
  HostValues values;
  int64_t most = 0;
  Tensor state = values.allocate(kFloats, {1});
  for (int64_t step = 2; step <= 4000; ++step) {
    state = values.allocate(kFloats, {step});  // while the one before is still there
    most = std::max(most, values.waiting_bytes());
  }
  EXPECT_LE(most, int64_t{2 * 4 * 4000 * 5 / 4});
}

TEST(HostValues, TensorsMayOutliveIt) {
  Tensor x;
  {
    HostValues values;
    x = values.allocate(kFloats, {64});
  }
  std::memset(place_of(x), 0, x.bytes().size());
  EXPECT_EQ(x.to_doubles()[63], 0);
}

}  // namespace
}  // namespace lathe::cpu
