// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Hash, Xxh3KnownValue) {
  EXPECT_EQ(hash_text(""), 0x2d06800538d394c2u);  // XXH3_64bits of nothing, seed 0
}

TEST(Hash, SeedAndContentMatter) {
  EXPECT_NE(hash_text("a"), hash_text("b"));
  EXPECT_NE(hash_text("a", 1), hash_text("a", 2));
  EXPECT_EQ(hash_text("abc"), hash_bytes(bytes_of("abc")));
}

TEST(Hash, PrintsSixteenDigits) {
  EXPECT_EQ(hash_to_string(0x123456789abcdefu), "0x0123456789abcdef");
  EXPECT_EQ(hash_to_string(0), "0x0000000000000000");
}

}  // namespace
}  // namespace lathe
