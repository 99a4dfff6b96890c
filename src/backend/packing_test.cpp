// SPDX-License-Identifier: Apache-2.0
#include "backend/packing.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lathe {
namespace {

TEST(Packing, ABlockHasTheSizeThatTheLayerReads) {
  MemoryBlobStore store;
  const PackContext pack{store, "00003/conv"};
  int packed = 0;
  const auto make = [&](size_t bytes) {
    return [&, bytes] {
      ++packed;
      return std::vector<std::byte>(bytes);
    };
  };
  EXPECT_EQ(pack.packed("weights", 64, make(64)).size(), 64u);
  EXPECT_EQ(pack.packed("weights", 64, make(64)).size(), 64u);
  EXPECT_EQ(packed, 1);
  try {
    pack.packed("weights", 128, make(128));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_STREQ(error.what(), "the packed block '00003/conv/weights' has 64 bytes, and the layer reads 128");
  }
  EXPECT_THROW(pack.packed("bias", 8, make(4)), Error);
}

}  // namespace
}  // namespace lathe
