// SPDX-License-Identifier: Apache-2.0
#include "explorer/web/report_page.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lathe::explorer {
namespace {

TEST(ReportPage, DataStandsWhereThePlaceholderWas) {
  EXPECT_EQ(fill_template("<a>@ANALYSIS_JSON@</a>", "{\"x\": 1}"), "<a>{\"x\": 1}</a>");
}

TEST(ReportPage, NoNameEndsTheScriptElement) {
  EXPECT_EQ(fill_template("@ANALYSIS_JSON@", "{\"name\": \"</script><!--\"}"),
            "{\"name\": \"\\u003c/script>\\u003c!--\"}");
}

TEST(ReportPage, DataIsOneLine) {
  EXPECT_EQ(fill_template("@ANALYSIS_JSON@", "{\n  \"a\": 1\r\n}"), "{   \"a\": 1  }");
}

// The page's own test unpacks it; here: small, and nothing that markup could mistake.
TEST(ReportPage, LargeDataIsCompressed) {
  std::string json = "{\"layers\": [";
  while (json.size() < size_t{5} << 20) json += "\"<layer>\", ";
  const std::string page = fill_template("[@ANALYSIS_JSON@]", json + "0]}");
  EXPECT_LT(page.size(), size_t{100'000});
  EXPECT_EQ(page.substr(0, 5), "[H4sI");  // base64 of gzip's first bytes
  EXPECT_EQ(page.find_first_of("<>\"&"), std::string::npos);
}

TEST(ReportPage, ATemplateHasOnePlaceholder) {
  EXPECT_THROW(fill_template("none", "{}"), Error);
  EXPECT_THROW(fill_template("@ANALYSIS_JSON@ @ANALYSIS_JSON@", "{}"), Error);
}

// Either build is legitimate; both must say what they are.
TEST(ReportPage, TheBinaryCarriesThePageOrSaysWhyNot) {
  if (report_template().empty()) {
    EXPECT_THROW(report_page("{}"), Error);
  } else {
    const std::string page = report_page("{\"schema\":\"lathe-analysis\"}");
    EXPECT_NE(page.find("{\"schema\":\"lathe-analysis\"}"), std::string::npos);
    EXPECT_EQ(page.find("@ANALYSIS_JSON@"), std::string::npos);
  }
}

}  // namespace
}  // namespace lathe::explorer
