// SPDX-License-Identifier: Apache-2.0
//
// The table of lathe's commands and their options. One row gives the parser, the help text, the completion
// and the manual.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::cli {

struct CommandOption {
  std::string_view name;   // "-o" or "--json"
  std::string_view value;  // "<file>"; empty: a switch
  std::string_view help;
  std::vector<std::string_view> aliases = {};  // other spellings, not in the help text
};

// Which of trtexec's flags a command takes besides its own options.
enum class TrtexecFlags { None, Listed, All };

struct CommandSyntax {
  std::string_view name, arguments, summary;
  std::vector<CommandOption> options;
  TrtexecFlags flags = TrtexecFlags::None;
  std::vector<std::string_view> listed_flags;  // names of trtexec's table
  std::string_view notes;                      // behind the options
  std::string_view examples;
};

const std::vector<CommandSyntax>& command_table();
// Null when there is none of that name.
const CommandSyntax* find_command(std::string_view name);
// The row of a command that exists.
const CommandSyntax& command_syntax(std::string_view name);

// A command's own options and the flags of trtexec that it takes, as rows of one kind.
std::vector<CommandOption> all_options(const CommandSyntax& command);
// "-o <file>", "--json=<file>", "--text".
std::string with_value(const CommandOption& option);

std::string general_help();
std::string command_help(const CommandSyntax& command);
// "no command lsit; did you mean list?"
[[noreturn]] void throw_no_command(std::string_view name);

}  // namespace lathe::cli
