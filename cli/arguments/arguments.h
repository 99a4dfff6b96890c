// SPDX-License-Identifier: Apache-2.0
//
// trtexec's lexical rules: "--flag" or "--flag=value", split at the first '='; numbers are read leniently (a
// leading number counts, "12abc" is 12), as the original does. What no option takes is reported as unknown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::cli {

struct Argument {
  std::string name, value;
  bool taken = false;
};

class Arguments {
 public:
  explicit Arguments(const std::vector<std::string>& words);

  std::vector<Argument>& all() { return arguments_; }
  // Takes the first argument of that name.
  std::optional<std::string> take(std::string_view name);
  // Takes all of that name, in order.
  std::vector<std::string> take_all(std::string_view name);
  bool has(std::string_view name) const;
  // "--foo value" for each argument that nobody took.
  std::vector<std::string> left_over() const;

 private:
  std::vector<Argument> arguments_;
};

// `option` names the flag in the message. They throw Input; the text starts with stoi or stof, as scripts
// expect.
int parse_int(std::string_view option, const std::string& text);
float parse_float(std::string_view option, const std::string& text);

// Comma lists: "" has no element, "a," has two.
std::vector<std::string> split_list(const std::string& text, char separator = ',');

}  // namespace lathe::cli
