// SPDX-License-Identifier: Apache-2.0
//
// trtexec's lexical rules: "--flag" or "--flag=value", split at the first '='; numbers are read leniently (a
// leading number counts, "12abc" is 12), as the original does.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lathe::cli {

struct Argument {
  std::string name, value;
  bool has_value = false;  // an equals sign stood there
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

 private:
  std::vector<Argument> arguments_;
};

// A value that is no number. trtexec answers such a flag with the name of the function that failed, and its
// scripts match that name; what we add to its command line does without.
class NumberError : public Error {
 public:
  NumberError(std::string_view function, std::string_view option, std::string message)
      : Error(ErrorKind::Input, std::move(message)), function_(function), option_(option) {}
  std::string_view function() const { return function_; }  // "stoi" or "stof"
  const std::string& option() const { return option_; }

 private:
  std::string_view function_;
  std::string option_;
};

// `option` names the flag in the message. They throw NumberError.
int parse_int(std::string_view option, const std::string& text);
float parse_float(std::string_view option, const std::string& text);

// Comma lists: "" has no element, "a," has two.
std::vector<std::string> split_list(const std::string& text, char separator = ',');

}  // namespace lathe::cli
