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

TEST(Json, IntegersHoldWhatIsRead) {
  EXPECT_EQ(Json(-7).get<int>(), -7);
  EXPECT_EQ(Json(7.0).get<int64_t>(), 7);
  EXPECT_EQ(Json(0xffffffffffffffffu).get<uint64_t>(), 0xffffffffffffffffu);
  EXPECT_THROW(Json(1e30).get<int64_t>(), Error);
  EXPECT_THROW(Json(-1e30).get<int64_t>(), Error);
  EXPECT_THROW(Json(0xffffffffffffffffu).get<int64_t>(), Error);
  EXPECT_THROW(Json(1ll << 40).get<int>(), Error);
  EXPECT_THROW(Json(-1).get<size_t>(), Error);
  EXPECT_THROW(parse_json("[1, 1e40]", "f.json").get<std::vector<int64_t>>(), Error);
  EXPECT_THROW(Json("7").get<int64_t>(), Json::exception);
}

TEST(Json, DeepNestingIsAnError) {
  EXPECT_NE(error_of(std::string(2'000'000, '[')).find("nested deeper"), std::string::npos);
}

TEST(Json, BracketsInStringsDoNotNest) {
  const std::string text = "[\"" + std::string(600, '[') + "\\\"" + std::string(600, '{') + "\\\\\", [1]]";
  EXPECT_EQ(parse_json(text, "f.json")[1][0], 1);
  const std::string deep = "[\"\\\\\", " + std::string(600, '[');
  EXPECT_NE(error_of(deep).find("nested deeper"), std::string::npos);
}

// A list of objects is as quick as it is long. With the parser's callback this takes minutes.
TEST(Json, LongListsTakeNoTime) {
  std::string text = "[{}";
  for (int i = 1; i < 100'000; ++i) text += ", {}";
  EXPECT_EQ(parse_json(text + "]", "f.json").size(), 100'000u);
}

TEST(Json, InvalidUtf8IsReplaced) {
  EXPECT_EQ(dump_json(Json("a\xff"), -1), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace lathe
