// SPDX-License-Identifier: Apache-2.0
#include "ir/format.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lathe {
namespace {

TEST(Format, TextReadsBack) {
  for (const Format& f : {kLinear, kChannelsLast, kBlocked8, kBlocked16}) {
    EXPECT_EQ(format_from_string(to_string(f)), f);
  }
  EXPECT_THROW(format_from_string("blocked7"), Error);
  EXPECT_EQ(to_string(TensorType{DType::Float32, kBlocked16}), "float32:blocked16");
}

TEST(Format, BlockedPadsChannels) {
  EXPECT_EQ(storage_elements({2, 3, 4, 5}, kBlocked8), 2 * 8 * 4 * 5);
  EXPECT_EQ(storage_elements({2, 3, 4, 5}, kChannelsLast), 2 * 3 * 4 * 5);
  EXPECT_EQ(storage_bytes(DType::BFloat16, {1, 17, 2}, kBlocked16), 2 * 32 * 2);
  EXPECT_THROW(storage_elements({3}, kBlocked8), Error);
}

TEST(Format, Strides) {
  EXPECT_EQ(format_strides({2, 3, 4, 5}, kLinear), (Extents{60, 20, 5, 1}));
  EXPECT_EQ(format_strides({2, 3, 4, 5}, kChannelsLast), (Extents{60, 1, 15, 3}));
  EXPECT_EQ(format_strides({2, 20, 4, 5}, kBlocked16), (Extents{40, 20, 5, 1}));
}

}  // namespace
}  // namespace lathe
