// SPDX-License-Identifier: Apache-2.0
#include "report/table.h"

#include <gtest/gtest.h>

#include "base/short_text.h"

namespace lathe {
namespace {

TEST(Table, FitsWhereColumnsMayBeCut) {
  Table table(
      {{"#", Table::Align::Right}, {"tactic", Table::Align::Left, 6}, {"layer", Table::Align::Left, 8}});
  table.add({"1", "a_very_long_name_of_a_tactic", "layer4/layer4.0/conv2/Conv"});
  table.add({"22", "short", "fc"});
  EXPECT_EQ(table.text(),
            "   #  tactic                        layer\n"
            "   1  a_very_long_name_of_a_tactic  layer4/layer4.0/conv2/Conv\n"
            "  22  short                         fc\n");
  const std::string narrow = table.text(40);
  for (size_t start = 0, end; (end = narrow.find('\n', start)) != std::string::npos; start = end + 1)
    EXPECT_LE(text_width(narrow.substr(start, end - start)), 40u) << narrow;
  EXPECT_NE(narrow.find("22  short"), std::string::npos) << narrow;
  // Below the least of all columns it stays as wide as it must.
  EXPECT_EQ(table.text(5), table.text(10));
}

}  // namespace
}  // namespace lathe
