// SPDX-License-Identifier: Apache-2.0
//
// `lathe autocast`: a float32 model in, the same model in mixed precision out.
#include <fmt/format.h>

#include <map>

#include "arguments/arguments.h"
#include "arguments/values.h"
#include "arguments/words.h"
#include "base/file.h"
#include "base/json.h"
#include "base/observer.h"
#include "builder/autocast.h"
#include "calibration_data.h"
#include "commands.h"
#include "engine_setup.h"
#include "onnx/import.h"
#include "output_file.h"
#include "report/table.h"
#include "say.h"

namespace lathe::cli {
namespace {

DType read_type(const CommandWords& arguments) {
  const std::string type = arguments.value("--to");
  if (type == "fp16") return DType::Float16;
  if (type == "bf16") return DType::BFloat16;
  throw_input_error("--to is fp16 or bf16" + (type.empty() ? "" : ", not '" + type + "'"));
}

AutocastOptions read_autocast_options(const CommandWords& arguments) {
  AutocastOptions options;
  options.scope.narrow = read_type(arguments);
  options.scope.exclude = split_list(arguments.value("--exclude"));
  for (const auto& type : split_list(arguments.value("--exclude-types")))
    options.scope.exclude_types.insert(type);
  options.scope.converts_io = arguments.has("--convert-io");
  if (arguments.has("--max-magnitude")) {
    options.largest_magnitude =
        static_cast<double>(parse_float("--max-magnitude", arguments.value("--max-magnitude")));
    if (!(options.largest_magnitude > 0)) throw_input_error("--max-magnitude is a positive number");
  }
  if (arguments.has("--max-reduction")) {
    options.longest_sum = parse_int("--max-reduction", arguments.value("--max-reduction"));
    if (options.longest_sum < 1) throw_input_error("--max-reduction must be at least 1");
  }
  return options;
}

Json outputs_json(const AutocastResult& result) {
  Json outputs = Json::array();
  for (const auto& [name, comparison] : result.outputs)
    outputs.push_back({{"name", name},
                       {"relative_l2", comparison.relative_l2},
                       {"cosine", comparison.cosine},
                       {"max_absolute", comparison.max_absolute},
                       {"same_shape", !comparison.shapes_differ}});
  return outputs;
}

Json result_json(const AutocastResult& result, const std::string& file) {
  Json left = Json::array();
  for (const auto& [node, type, reason] : result.plan.left)
    left.push_back({{"node", node}, {"type", type}, {"reason", reason.kind}, {"detail", reason.detail}});
  return {{"file", file},
          {"bytes", result.model.bytes.size()},
          {"type", dtype_name(result.plan.narrow)},
          {"opset", result.plan.opset},
          {"samples", result.samples},
          {"nodes", result.plan.float_count},
          {"narrow_nodes", result.plan.narrow_count},
          {"casts", result.model.casts},
          {"constant_bytes_before", result.model.constant_bytes_before},
          {"constant_bytes", result.model.constant_bytes},
          {"left", left},
          {"outputs", outputs_json(result)},
          {"held_back", result.is_held_back},
          {"limit", result.limit()},
          {"passed", result.fits()}};
}

void print_left(const AutocastResult& result) {
  struct Group {
    int count = 0;
    std::string detail;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const auto& left : result.plan.left) {
    Group& group = groups[{left.op_type, left.reason.kind}];
    if (group.count++ == 0) group.detail = left.reason.detail;
  }
  if (groups.empty()) return;
  Table table({{"nodes", Table::Align::Right}, {"operator"}, {"stays float32 because"}, {"the first one"}});
  for (const auto& [key, group] : groups)
    table.add({std::to_string(group.count), key.first, key.second, group.detail});
  say("\n{}", table.text());
}

void print_outputs(const AutocastResult& result) {
  Table table({{"relative L2", Table::Align::Right}, {"cosine", Table::Align::Right}, {"output"}});
  for (const auto& [name, comparison] : result.outputs)
    table.add(
        {fmt::format("{:.2e}", comparison.relative_l2), fmt::format("{:.6f}", comparison.cosine), name});
  say("\nAgainst the float32 model, in the reference interpreter, on {}:\n\n{}",
      result.is_held_back ? "a sample that was not measured" : "the sample that was measured", table.text());
}

void warn_of_loss(const AutocastResult& result) {
  for (const auto& [name, comparison] : result.outputs)
    if (!comparison.within(result.limit()))
      say_to(stderr,
             "warning: output '{}' is further away than rounding to {} explains ({:.2g}): {}. "
             "--max-magnitude and "
             "--exclude keep more in float32.\n",
             name, dtype_name(result.plan.narrow), result.limit(), comparison.to_string());
}

void print_result(const AutocastResult& result, const std::string& file) {
  say("wrote {} ({}): {} of {} nodes compute in {}, {} Casts; constants have {} of {}\n", file,
      bytes_text(static_cast<int64_t>(result.model.bytes.size())), result.plan.narrow_count,
      result.plan.float_count, dtype_name(result.plan.narrow), result.model.casts,
      bytes_text(result.model.constant_bytes), bytes_text(result.model.constant_bytes_before));
  print_left(result);
  print_outputs(result);
}

}  // namespace

int run_autocast(const Words& words) {
  const CommandWords arguments(words, command_syntax("autocast"));
  if (arguments.positional().size() != 1)
    throw_input_error("autocast takes one model: lathe autocast model.onnx --to fp16 -o mixed.onnx");
  const std::string model = arguments.positional()[0], file = arguments.value("-o");
  const AutocastOptions options = read_autocast_options(arguments);
  require_new_file(file, "mixed.onnx", arguments.has("--force"));
  NullObserver observer;
  const ImportedModel imported = import_onnx(model, observer);
  CalibrationData data = open_calibration_data(arguments, input_infos(imported.graph));
  ThreadPool pool(system_flags_of(arguments).cpu_threads);
  const AutocastResult result = autocast_model(
      model, imported.graph, pool, [&](std::vector<Tensor>& sample) { return data.next(sample); }, options,
      progress_line(data.count()));
  write_file_atomically(file, result.model.bytes);
  if (arguments.has("--json"))
    fmt::print("{}\n", dump_json(result_json(result, file)));
  else
    print_result(result, file);
  warn_of_loss(result);
  return 0;
}

}  // namespace lathe::cli
