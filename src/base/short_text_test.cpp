// SPDX-License-Identifier: Apache-2.0
#include "base/short_text.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(ShortText, CharactersStayWhole) {
  EXPECT_EQ(shorten("abcdefghij", 6), "ab\u2026hij");
  EXPECT_EQ(shorten("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc", 4), "\u00e4\u2026\u00f6\u00fc");
  EXPECT_EQ(shorten("short", 10), "short");
  EXPECT_EQ(shorten("short", 1), "\u2026");
  EXPECT_EQ(shorten("short", 0), "");
  EXPECT_EQ(text_width("\u00e4b\u2026"), 3u);
}

}  // namespace
}  // namespace lathe
