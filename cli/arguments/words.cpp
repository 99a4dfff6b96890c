// SPDX-License-Identifier: Apache-2.0
#include "arguments/words.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe::cli {

CommandWords::CommandWords(const std::vector<std::string>& words, const std::vector<std::string>& options,
                           const std::vector<std::string>& switches) {
  const auto contains = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') {
      positional_.push_back(word);
      continue;
    }
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (contains(switches, name) && equals == std::string::npos) {
      values_[name] = "";
    } else if (contains(options, name)) {
      if (equals == std::string::npos && i + 1 == words.size()) throw_input_error(name + " needs a value");
      values_[name] = equals == std::string::npos ? words[++i] : word.substr(equals + 1);
    } else if (contains(switches, name)) {
      throw_input_error(fmt::format("{} takes no value: write {} alone", name, name));
    } else {
      std::string known;
      for (const auto& list : {options, switches}) {
        for (const auto& item : list) known += " " + item;
      }
      throw_input_error("unknown option " + word + (known.empty() ? "" : " (known:" + known + ")"));
    }
  }
}

std::string CommandWords::value(const std::string& option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? "" : found->second;
}

}  // namespace lathe::cli
