// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lathe {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse_json(text, "t.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "";
}

TEST(Json, KeepsOrder) {
  EXPECT_EQ(dump_json(parse_json(R"({"z": 1, "a": [true, null, 1.5]})", "t.json"), -1),
            R"({"z":1,"a":[true,null,1.5]})");
}

TEST(Json, ErrorsGiveLineAndColumn) {
  EXPECT_EQ(error_of("{\n  \"a\": ]\n}").substr(0, 28), "t.json:2:8: not valid JSON: ");
  EXPECT_NE(error_of(""), "");
  EXPECT_NE(error_of("{} x"), "");
  EXPECT_NE(error_of("{'a': 1}"), "");
}

TEST(Json, HugeNumbersAreErrors) {
  EXPECT_NE(error_of("1e999999").find("not valid JSON"), std::string::npos);
}

TEST(Json, DeepNestingIsAnError) {
  EXPECT_NE(error_of(std::string(2'000'000, '[')).find("nested deeper"), std::string::npos);
}

TEST(Json, InvalidUtf8IsReplaced) {
  EXPECT_EQ(dump_json(Json("a\xff"), -1), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace lathe
