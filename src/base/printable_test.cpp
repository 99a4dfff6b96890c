// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Printable, TextStaysAsItIs) {
  EXPECT_EQ(printable("Conv_0 + Relu_1\n\tb"), "Conv_0 + Relu_1\n\tb");
  EXPECT_EQ(printable("größe 尺寸 \xF0\x9F\x99\x82"), "größe 尺寸 \xF0\x9F\x99\x82");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, NothingThatActsOnATerminal) {
  EXPECT_EQ(printable("a\x1b]0;title\x07"), "a\\x1b]0;title\\x07");
  EXPECT_EQ(printable("done\rFAILED\x08\x7f"), "done\\x0dFAILED\\x08\\x7f");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "31mb"),
            "a\\u009b31mb");                              // CSI as one character
  EXPECT_EQ(printable("\xe2\x80\xaetxt"), "\\u202etxt");  // right to left
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Printable, BytesThatAreNoText) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");  // ESC and its like in more bytes than it needs
  EXPECT_EQ(printable("\xed\xa0\x80z"), "\\xed\\xa0\\x80z");
}

}  // namespace
}  // namespace lathe
