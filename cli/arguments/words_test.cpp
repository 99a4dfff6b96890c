// SPDX-License-Identifier: Apache-2.0
#include "arguments/words.h"

#include <gtest/gtest.h>

#include <set>

#include "arguments/error_of.h"

namespace lathe::cli {
namespace {

using Words = std::vector<std::string>;

std::string words_error(const Words& words, std::string_view command) {
  return error_of([&] { CommandWords(words, command_syntax(command)); });
}

TEST(CommandWords, ValuesFollowOrAreJoined) {
  const CommandWords words({"a.engine", "-o", "x.html", "--json=-", "--text"}, command_syntax("explore"));
  EXPECT_EQ(words.positional(), Words{"a.engine"});
  EXPECT_EQ(words.value("-o"), "x.html");
  EXPECT_EQ(words.value("--json"), "-");  // a lone dash is a value
  EXPECT_TRUE(words.has("--text"));
  EXPECT_FALSE(words.has("--trace"));
}

TEST(CommandWords, AliasesGoByTheNameInTheTable) {
  EXPECT_EQ(CommandWords({"a", "--output", "b"}, command_syntax("zoo")).value("-o"), "b");
  EXPECT_TRUE(CommandWords({"--build_engine"}, command_syntax("process")).has("-b"));
}

TEST(CommandWords, OfTrtexecsFlagsSomeOrAll) {
  EXPECT_EQ(CommandWords({"--device=cpu"}, command_syntax("diff")).value("--device"), "cpu");
  EXPECT_EQ(words_error({"--bf16"}, "diff"), "unknown option --bf16: `lathe help diff` lists all");
  EXPECT_EQ(CommandWords({"--bf16", "-o", "x", "--avgTiming=2"}, command_syntax("retune")).passed(),
            (Words{"--bf16", "--avgTiming=2"}));
}

TEST(CommandWords, MistakesAreNamed) {
  EXPECT_EQ(words_error({"--jsn"}, "inspect"), "unknown option --jsn: did you mean --json?");
  EXPECT_EQ(words_error({"--jsn=x"}, "explore"), "unknown option --jsn=x: did you mean --json=x?");
  EXPECT_EQ(words_error({"--json=x"}, "inspect"), "--json takes no value: write --json alone");
  EXPECT_EQ(words_error({"--onnx"}, "explore"), "--onnx needs a value: write --onnx=<file>");
  EXPECT_EQ(words_error({"-o", "a", "--output=b"}, "zoo"), "-o is given twice");
}

TEST(CommandTable, NamesAreUniqueAndFlagsExist) {
  for (const auto& command : command_table()) {
    std::set<std::string_view> names;
    for (const auto& option : all_options(command)) {
      EXPECT_TRUE(names.insert(option.name).second) << command.name << " " << option.name;
      EXPECT_FALSE(option.help.empty()) << command.name << " " << option.name;
    }
    for (const auto listed : command.listed_flags)
      EXPECT_TRUE(names.contains(listed)) << command.name << " " << listed;
  }
}

}  // namespace
}  // namespace lathe::cli
