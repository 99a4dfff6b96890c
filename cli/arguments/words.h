// SPDX-License-Identifier: Apache-2.0
//
// The arguments of lathe's own commands: positional words, options with a value ("-o file" or
// "--output=file"), switches.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "arguments/command_table.h"

namespace lathe::cli {

class CommandWords {
 public:
  // Throws Input for a word that begins with '-' and is no option of the command. A command that takes all of
  // trtexec's flags passes such words on.
  CommandWords(const std::vector<std::string>& words, const CommandSyntax& command);

  const std::vector<std::string>& positional() const { return positional_; }
  const std::vector<std::string>& passed() const { return passed_; }
  // Empty when not given. Options go by their name in the table, not by an alias.
  std::string value(const std::string& option) const;
  bool has(const std::string& name) const { return values_.contains(name); }

 private:
  size_t take_option(const std::vector<std::string>& words, size_t i,
                     const std::vector<CommandOption>& options, const CommandSyntax& command);

  std::vector<std::string> positional_, passed_;
  std::map<std::string, std::string> values_;
};

}  // namespace lathe::cli
