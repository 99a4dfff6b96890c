// SPDX-License-Identifier: Apache-2.0
//
// What all three scripts say: behind "lathe" a command; behind a command its options and words or files;
// behind an option its value, which may be a file, a folder or one of some words.
#include "arguments/completion.h"

#include <fmt/format.h>

#include <algorithm>

#include "arguments/arguments.h"
#include "arguments/command_table.h"
#include "arguments/suggest.h"
#include "base/error.h"

namespace lathe::cli {
namespace {

struct Value {
  enum Kind { Nothing, Anything, File, Folder, Words } kind;
  std::vector<std::string> words;
};

// The words of "cpu|auto|<n>", without what stands in angle brackets.
std::vector<std::string> fixed_words(std::string_view text, char separator) {
  std::vector<std::string> words;
  for (auto& word : split_list(std::string(text), separator)) {
    std::erase(word, ' ');
    if (!word.starts_with("<") && !word.ends_with(">")) words.push_back(std::move(word));
  }
  return words;
}

Value value_of(std::string_view text) {
  if (text.empty()) return {Value::Nothing, {}};
  if (text == "<file>") return {Value::File, {}};
  if (text == "<dir>" || text == "<folder>") return {Value::Folder, {}};
  if (text.find('|') != std::string_view::npos && text.find("|max>") == std::string_view::npos)
    return {Value::Words, fixed_words(text, '|')};
  return {Value::Anything, {}};
}

// What stands behind a command: words of its own, or files.
Value operands_of(const CommandSyntax& command, const std::vector<std::string>& models) {
  if (command.name == "zoo") return {Value::Words, models};
  if (command.name == "trtexec") return {Value::Nothing, {}};
  if (command.name == "help") {
    std::vector<std::string> names;
    for (const auto& other : command_table()) names.emplace_back(other.name);
    return {Value::Words, names};
  }
  if (command.arguments.find('<') != std::string_view::npos) return {Value::File, {}};
  return {Value::Words, fixed_words(command.arguments, '|')};
}

std::string command_names() {
  std::string text;
  for (const auto& command : command_table()) text += (text.empty() ? "" : " ") + std::string(command.name);
  return text;
}

// --- bash

std::string bash_action(const Value& value) {
  switch (value.kind) {
    case Value::File:
      return "_lathe_files -f";
    case Value::Folder:
      return "_lathe_files -d";
    case Value::Words:
      return fmt::format("_lathe_words \"{}\"", fmt::join(value.words, " "));
    default:
      return ":";
  }
}

constexpr std::string_view kBashHead =
    R"(# Completion of lathe and trtexec for bash, made by `lathe completion bash`.
_lathe_words() {
  local IFS=$' \t\n'
  COMPREPLY=($(compgen -P "$prefix" -W "$1" -- "$cur"))
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
_lathe_files() {
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen -P "$prefix" "$1" -- "$cur"))
}
_lathe() {
  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} flag= prefix= command=trtexec
  COMPREPLY=()
  # Most shells break words at "=", which is then a word of its own.
  if [[ $cur == = ]]; then
    flag=$before cur=
  elif [[ $before == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $cur == --*=* ]]; then
    flag=${cur%%=*} prefix=${cur%%=*}= cur=${cur#*=}
  elif [[ $before == -? ]]; then
    flag=$before
  fi
)";

std::string bash_script(const std::vector<std::string>& models) {
  std::string text(kBashHead);
  text +=
      "  if [[ ${COMP_WORDS[0]##*/} != trtexec ]]; then\n"
      "    if ((COMP_CWORD == 1)); then\n"
      "      _lathe_words \"" +
      command_names() +
      " --version --help\"\n      return\n    fi\n"
      "    command=${COMP_WORDS[1]}\n  fi\n  case $command$flag in\n";
  for (const auto& command : command_table()) {
    std::string names = "--help";
    for (const auto& option : all_options(command)) {
      const bool joined = option.name.starts_with("--") && !option.value.empty();
      names += fmt::format(" {}{}", option.name, joined ? "=" : "");
      if (!option.value.empty())
        text +=
            fmt::format("    {}{}) {} ;;\n", command.name, option.name, bash_action(value_of(option.value)));
    }
    text += fmt::format("    {}) if [[ $cur == -* ]]; then _lathe_words \"{}\"; else {}; fi ;;\n",
                        command.name, names,
                        command.name == "trtexec" ? fmt::format("_lathe_words \"{}\"", names)
                                                  : bash_action(operands_of(command, models)));
  }
  return text + "  esac\n}\ncomplete -F _lathe lathe trtexec\n";
}

// --- zsh

std::string zsh_quoted(std::string_view text, std::string_view special) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
      continue;
    }
    if (special.find(c) != std::string_view::npos) quoted += '\\';
    quoted += c;
  }
  return quoted;
}

std::string zsh_action(const Value& value) {
  switch (value.kind) {
    case Value::File:
      return ":file:_files";
    case Value::Folder:
      return ":folder:_files -/";
    case Value::Words:
      return fmt::format(":value:({})", fmt::join(value.words, " "));
    case Value::Anything:
      return ":value:";
    default:
      return "";
  }
}

std::string zsh_script(const std::vector<std::string>& models) {
  std::string text =
      "#compdef lathe trtexec\n# Completion of lathe and trtexec for zsh, made by `lathe completion zsh`.\n";
  std::string commands;
  for (const auto& command : command_table()) {
    commands += fmt::format("    '{}:{}'\n", command.name, zsh_quoted(command.summary, ":\\"));
    text += fmt::format("_lathe_{}() {{\n  _arguments '--help[print the help text]'", command.name);
    for (const auto& option : all_options(command)) {
      const bool joined = option.name.starts_with("--") && !option.value.empty();
      text += fmt::format(" \\\n    '{}{}[{}]{}'", option.name, joined ? "=" : "",
                          zsh_quoted(option.help, "[]\\:"), zsh_action(value_of(option.value)));
    }
    const Value operands = operands_of(command, models);
    if (operands.kind != Value::Nothing) text += fmt::format(" \\\n    '*{}'", zsh_action(operands));
    text += "\n}\n";
  }
  return text +
         "_lathe() {\n  if [[ $service == trtexec ]]; then _lathe_trtexec; return; fi\n  local -a "
         "commands=(\n" +
         commands +
         "  )\n  if ((CURRENT == 2)); then _describe command commands; return; fi\n"
         "  local command=$words[2]\n  (( $+functions[_lathe_$command] )) || return 1\n"
         "  shift words\n  ((CURRENT--))\n  _lathe_$command\n}\n"
         "if [[ $funcstack[1] == _lathe ]]; then _lathe \"$@\"; else compdef _lathe lathe trtexec; fi\n";
}

// --- fish

std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string fish_value(const Value& value) {
  switch (value.kind) {
    case Value::File:
      return " -r -F";
    case Value::Folder:
      return " -x -a '(__fish_complete_directories)'";
    case Value::Words:
      return fmt::format(" -x -a '{}'", fmt::join(value.words, " "));
    case Value::Anything:
      return " -x";
    default:
      return "";
  }
}

std::string fish_option(const std::string& start, const CommandOption& option) {
  const bool is_short = !option.name.starts_with("--");
  return fmt::format("{} {} {}{} -d {}\n", start, is_short ? "-s" : "-l",
                     option.name.substr(is_short ? 1 : 2), fish_value(value_of(option.value)),
                     fish_quoted(option.help));
}

std::string fish_script(const std::vector<std::string>& models) {
  std::string text =
      "# Completion of lathe and trtexec for fish, made by `lathe completion fish`.\n"
      "complete -c trtexec -f\ncomplete -c lathe -f\n";
  for (const auto& option : all_options(command_syntax("trtexec")))
    text += fish_option("complete -c trtexec", option);
  for (const auto& command : command_table()) {
    text += fmt::format("complete -c lathe -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        fish_quoted(command.summary));
    const std::string start =
        fmt::format("complete -c lathe -n '__fish_seen_subcommand_from {}'", command.name);
    for (const auto& option : all_options(command)) text += fish_option(start, option);
    const Value operands = operands_of(command, models);
    if (operands.kind == Value::File) text += start + " -F\n";
    if (operands.kind == Value::Words)
      text += fmt::format("{} -a '{}'\n", start, fmt::join(operands.words, " "));
  }
  return text;
}

}  // namespace

std::string completion_script(std::string_view shell, const std::vector<std::string>& models) {
  if (shell == "bash") return bash_script(models);
  if (shell == "zsh") return zsh_script(models);
  if (shell == "fish") return fish_script(models);
  const std::string hint = suggestion(shell, {"bash", "zsh", "fish"});
  throw_input_error(
      fmt::format("no completion for {}: {}", shell, hint.empty() ? "there is bash, zsh and fish" : hint));
}

}  // namespace lathe::cli
