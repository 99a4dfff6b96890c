// SPDX-License-Identifier: Apache-2.0
//
// `lathe completion` and `lathe man`: what a shell and man(1) need to know of the command line.
#include <cstdio>

#include "arguments/completion.h"
#include "arguments/manual.h"
#include "arguments/words.h"
#include "base/error.h"
#include "commands.h"
#include "onnx/zoo.h"

namespace lathe::cli {

int run_completion(const Words& words) {
  const CommandWords arguments(words, command_syntax("completion"));
  if (arguments.positional().size() != 1)
    throw_input_error("completion takes a shell: lathe completion bash, zsh or fish");
  std::vector<std::string> models;
  for (const auto& recipe : list_recipes()) models.push_back(recipe.name);
  std::fputs(completion_script(arguments.positional()[0], models).c_str(), stdout);
  return 0;
}

int run_man(const Words& words) {
  const CommandWords arguments(words, command_syntax("man"));
  if (arguments.positional().size() != 1)
    throw_input_error("man takes a page: lathe man lathe or lathe man trtexec");
  std::fputs(manual_page(arguments.positional()[0]).c_str(), stdout);
  return 0;
}

}  // namespace lathe::cli
