// SPDX-License-Identifier: Apache-2.0
//
// The arguments of lathe's own commands: positional words, options with a value ("-o file" or
// "--output=file"), switches.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace lathe::cli {

class CommandWords {
 public:
  // Throws Input for a word that begins with '-' and is in neither list.
  CommandWords(const std::vector<std::string>& words, const std::vector<std::string>& options,
               const std::vector<std::string>& switches);

  const std::vector<std::string>& positional() const { return positional_; }
  // Empty when not given.
  std::string value(const std::string& option) const;
  bool has(const std::string& name) const { return values_.contains(name); }

 private:
  std::vector<std::string> positional_;
  std::map<std::string, std::string> values_;
};

}  // namespace lathe::cli
