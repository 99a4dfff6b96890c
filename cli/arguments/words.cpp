// SPDX-License-Identifier: Apache-2.0
#include "arguments/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "arguments/suggest.h"
#include "base/error.h"

namespace lathe::cli {
namespace {

const CommandOption* find_option(const std::vector<CommandOption>& options, std::string_view name) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const CommandOption& option) {
    return option.name == name ||
           std::find(option.aliases.begin(), option.aliases.end(), name) != option.aliases.end();
  });
  return found == options.end() ? nullptr : &*found;
}

[[noreturn]] void throw_unknown(const std::string& word, const std::vector<CommandOption>& options,
                                const CommandSyntax& command) {
  std::vector<std::string_view> names;
  for (const auto& option : options) names.push_back(option.name);
  const auto equals = word.find('=');
  const std::string hint =
      suggestion(word.substr(0, equals), names, equals == std::string::npos ? "" : word.substr(equals));
  throw_input_error(
      fmt::format("unknown option {}: {}", word,
                  hint.empty() ? fmt::format("`lathe help {}` lists all", command.name) : hint));
}

}  // namespace

CommandWords::CommandWords(const std::vector<std::string>& words, const CommandSyntax& command) {
  const bool passes = command.flags == TrtexecFlags::All;
  const auto options = passes ? command.options : all_options(command);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() < 2 || words[i][0] != '-') {
      positional_.push_back(words[i]);
    } else {
      i += take_option(words, i, options, command) - 1;
    }
  }
}

// How many words it takes.
size_t CommandWords::take_option(const std::vector<std::string>& words, size_t i,
                                 const std::vector<CommandOption>& options, const CommandSyntax& command) {
  const std::string& word = words[i];
  const auto equals = word.find('=');
  const CommandOption* option = find_option(options, word.substr(0, equals));
  if (option == nullptr) {
    if (command.flags != TrtexecFlags::All) throw_unknown(word, options, command);
    passed_.push_back(word);
    return 1;
  }
  const std::string name(option->name);
  const bool has_value = equals != std::string::npos;
  if (option->value.empty() && has_value)
    throw_input_error(fmt::format("{} takes no value: write {} alone", name, name));
  if (!option->value.empty() && !has_value && i + 1 == words.size())
    throw_input_error(fmt::format("{} needs a value: write {}", name, with_value(*option)));
  if (values_.contains(name)) throw_input_error(fmt::format("{} is given twice", name));
  const bool takes_next = !option->value.empty() && !has_value;
  values_[name] = takes_next ? words[i + 1] : has_value ? word.substr(equals + 1) : "";
  return takes_next ? 2 : 1;
}

std::string CommandWords::value(const std::string& option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? "" : found->second;
}

}  // namespace lathe::cli
