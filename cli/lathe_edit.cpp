// SPDX-License-Identifier: Apache-2.0
//
// `lathe edit`: a part of a model, or a model with other names and shapes, as an ONNX file.
#include <fmt/format.h>

#include <filesystem>

#include "arguments/arguments.h"
#include "arguments/values.h"
#include "arguments/words.h"
#include "base/error.h"
#include "base/json.h"
#include "builder/edit_network.h"
#include "commands.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "ops/build.h"
#include "output_file.h"
#include "report/table.h"
#include "say.h"

namespace lathe::cli {
namespace {

std::vector<std::string> names_in(const CommandWords& arguments, const std::string& option) {
  return arguments.has(option) ? split_list(arguments.value(option)) : std::vector<std::string>{};
}

// Shapes first, so that what follows from them folds; names last, so that all options speak of the model's.
Graph edited(Graph graph, const CommandWords& arguments) {
  for (const auto& [input, extents] : parse_shapes("--shapes", arguments.value("--shapes")))
    set_input_shape(graph, input, extents);
  const auto outputs = names_in(arguments, "--outputs");
  if (!outputs.empty()) set_outputs(graph, outputs);
  for (const std::string& tensor : names_in(arguments, "--inputs")) cut_input(graph, tensor);
  if (arguments.has("--fold")) fold(graph);
  graph = without_unused(std::move(graph));
  for (const std::string& pair : names_in(arguments, "--rename")) {
    const auto [from, to] = parse_named_value(pair);
    rename(graph, from, to);
  }
  verify_graph(graph);
  return graph;
}

Json names_json(const Graph& graph, const std::vector<ValueId>& values) {
  Json names = Json::array();
  for (const ValueId id : values) names.push_back(graph.value(id).name);
  return names;
}

}  // namespace

int run_edit(const Words& words) {
  const CommandWords arguments(words, command_syntax("edit"));
  if (arguments.positional().size() != 1)
    throw_input_error("edit takes one model: lathe edit model.onnx --outputs=features -o part.onnx");
  const std::string model = arguments.positional()[0], file = arguments.value("-o");
  require_new_file(file, "part.onnx", arguments.has("--force"));
  NullObserver observer;
  const Graph before = import_onnx(std::filesystem::path(model), observer).graph;
  const Graph graph = edited(before, arguments);
  export_onnx(graph, std::filesystem::path(file));
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(file));
  if (arguments.has("--json")) {
    fmt::print("{}\n", dump_json({{"file", file},
                                  {"bytes", bytes},
                                  {"operators", graph.order().size()},
                                  {"operators_before", before.order().size()},
                                  {"inputs", names_json(graph, graph.inputs())},
                                  {"outputs", names_json(graph, graph.outputs())}}));
    return 0;
  }
  say("wrote {} ({}): {} of {} operators\n", file, bytes_text(bytes), graph.order().size(),
      before.order().size());
  return 0;
}

}  // namespace lathe::cli
