// SPDX-License-Identifier: Apache-2.0
#include "backend/storage_layout.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

Tensor counting(DType dtype, const Extents& extents) {
  std::vector<double> values(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 100);
  return Tensor::from_doubles(dtype, extents, values);
}

TEST(StorageLayout, StoredFormatsReadBack) {
  for (const DType dtype : {DType::Float32, DType::Int8, DType::Int64, DType::BFloat16})
    for (const Format format : {kLinear, kChannelsLast, kBlocked8, kBlocked16})
      for (const Extents& extents :
           {Extents{2, 19, 3, 4}, Extents{1, 16, 5}, Extents{7}, Extents{}, Extents{0, 3, 2}}) {
        const Tensor tensor = counting(dtype, extents);
        if (extents.size() < 2 && format.kind == Format::Kind::ChannelBlocked) continue;  // no channels
        std::vector<std::byte> stored(static_cast<size_t>(storage_bytes(dtype, extents, format)) + 64);
        from_linear(tensor, format, stored.data());
        EXPECT_EQ(to_linear({dtype, format}, extents, stored.data()).to_doubles(), tensor.to_doubles());
      }
}

TEST(StorageLayout, BlockedFormatPutsChannelsTogether) {
  const Tensor tensor = counting(DType::Float32, {1, 3, 2});  // 0 1 | 2 3 | 4 5
  std::vector<float> stored(16, -1.0f);
  from_linear(tensor, kBlocked8, stored.data());
  EXPECT_EQ(stored, (std::vector<float>{0, 2, 4, 0, 0, 0, 0, 0, 1, 3, 5, 0, 0, 0, 0, 0}));
}

TEST(StorageLayout, BytesInAFormatAreAsManyAsItsStorageHas) {
  const Tensor tensor = counting(DType::Float32, {1, 3, 2});
  EXPECT_EQ(in_format(tensor, kBlocked8).bytes().size(), size_t{8 * 2 * 4});
  EXPECT_EQ(in_format(tensor, kChannelsLast).bytes().size(), size_t{3 * 2 * 4});
  EXPECT_EQ(in_format(tensor, kLinear).bytes().data(), tensor.bytes().data());
  EXPECT_EQ(in_format(counting(DType::Float32, {0, 3, 2}), kBlocked8).bytes().size(), 0u);
}

}  // namespace
}  // namespace lathe
