// SPDX-License-Identifier: Apache-2.0
//
// `lathe zoo`: the built-in model recipes.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "arguments/words.h"
#include "base/error.h"
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

}  // namespace

int run_zoo(const Words& words) {
  const CommandWords arguments(words, command_syntax("zoo"));
  const auto names = arguments.positional();
  if (names.empty() && words.empty()) {
    list_models();
    return 0;
  }
  if (names.size() != 1) throw_input_error("zoo takes one model name: lathe zoo resnet50 -o resnet50.onnx");
  std::string file = arguments.value("-o");
  if (file.empty()) file = names[0] + ".onnx";
  write_model(names[0], file);
  say("wrote {} ({})\n", file, bytes_text(static_cast<int64_t>(std::filesystem::file_size(file))));
  return 0;
}

}  // namespace lathe::cli
