// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Error, ContextComesFirst) {
  try {
    try {
      throw_input_error("unknown operator 'Foo'");
    } catch (Error& error) {
      error.add_context("while importing node 'n'").add_context("m.onnx");
      throw;
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_STREQ(error.what(), "m.onnx: while importing node 'n': unknown operator 'Foo'");
    EXPECT_EQ(error.message(), "unknown operator 'Foo'");
    EXPECT_EQ(error.context(), "m.onnx: while importing node 'n'");
  }
}

TEST(Error, TheInnermostNodeIsKept) {
  Error error(ErrorKind::Input, "wrong");
  EXPECT_EQ(error.node(), "");
  error.set_node("inner", "Conv").set_node("outer", "If");
  EXPECT_EQ(error.node(), "inner");
  EXPECT_EQ(error.op_type(), "Conv");
}

TEST(Error, NamesWithControlCharactersStayOnOneLine) {
  const Error error(ErrorKind::Input, "node 'a\nb\x1b[31m' \xc3\xa9:\n  a list entry");
  EXPECT_STREQ(error.what(), "node 'a\\nb\\x1b[31m' \xc3\xa9:\n  a list entry");
  EXPECT_STREQ(Error(ErrorKind::Input, "x").add_context("file 'a\n'").what(), "file 'a\\n': x");
}

TEST(Error, CheckNamesThePlace) {
  check(true, "fine");
  try {
    check(false, "a rule");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    EXPECT_NE(std::string(error.what()).find("src/base/error_test.cpp:"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("a rule"), std::string::npos);
  }
}

}  // namespace
}  // namespace lathe
