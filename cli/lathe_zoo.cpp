// SPDX-License-Identifier: Apache-2.0
//
// `lathe zoo`: the built-in model recipes.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>

#include "arguments/words.h"
#include "base/error.h"
#include "base/json.h"
#include "commands.h"
#include "onnx/zoo.h"
#include "report/table.h"
#include "say.h"

namespace lathe::cli {
namespace {

std::string joined(const std::vector<std::string>& items) {
  return fmt::format("{}", fmt::join(items, ", "));
}

void list_models() {
  Table table({{"name"},
               {"parameters", Table::Align::Right},
               {"file", Table::Align::Right},
               {"inputs"},
               {"description"}});
  for (const auto& recipe : list_recipes()) {
    table.add({recipe.name, count_text(recipe.parameters), bytes_text(recipe.bytes), joined(recipe.inputs),
               recipe.description});
  }
  say("{}\nWrite one with: lathe zoo resnet50 -o resnet50.onnx\n", table.text());
}

Json models_json() {
  Json models = Json::array();
  for (const auto& recipe : list_recipes())
    models.push_back({{"name", recipe.name},
                      {"parameters", recipe.parameters},
                      {"bytes", recipe.bytes},
                      {"inputs", recipe.inputs},
                      {"description", recipe.description}});
  return models;
}

void print_json(const Json& json) {
  fmt::print("{}\n", dump_json(json));
}

// Whether `file` may be written: it is new, --force says so, or the person at the terminal does.
bool may_write(const std::string& file, bool force) {
  std::error_code ignored;
  if (force || !std::filesystem::is_regular_file(file, ignored)) return true;
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0)
    throw_input_error(fmt::format("{} exists: --force overwrites it", file));
  say_to(stderr, "{} exists. Overwrite it? [y/N] ", file);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

int run_zoo(const Words& words) {
  const CommandWords arguments(words, command_syntax("zoo"));
  const auto names = arguments.positional();
  const bool json = arguments.has("--json");
  if (names.empty() && words.size() == (json ? 1 : 0)) {
    json ? print_json(models_json()) : list_models();
    return 0;
  }
  if (names.size() != 1) throw_input_error("zoo takes one model name: lathe zoo resnet50 -o resnet50.onnx");
  std::string file = arguments.value("-o");
  if (file.empty()) file = names[0] + ".onnx";
  if (!may_write(file, arguments.has("--force"))) return 1;
  write_model(names[0], file);
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(file));
  if (json)
    print_json({{"model", names[0]}, {"file", file}, {"bytes", bytes}});
  else
    say("wrote {} ({})\n", file, bytes_text(bytes));
  return 0;
}

}  // namespace lathe::cli
