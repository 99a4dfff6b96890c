// SPDX-License-Identifier: Apache-2.0
//
// `lathe diff`: every layer of an engine against the oracle, or its outputs against ONNX Runtime.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "arguments/arguments.h"
#include "arguments/input_data.h"
#include "arguments/words.h"
#include "base/file.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "builder/builder.h"
#include "builder/isolate_nodes.h"
#include "commands.h"
#include "engine_setup.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "onnx_runtime.h"
#include "ops/interpreter.h"
#include "output_file.h"
#include "profiles.h"
#include "report/engine_diff.h"
#include "report/table.h"
#include "say.h"

namespace lathe::cli {
namespace {

std::string error_text(const std::optional<Comparison>& comparison) {
  return comparison ? fmt::format("{:.2e}", comparison->relative_l2) : "-";
}

std::string nodes_text(const std::vector<Origin>& origins) {
  std::string text;
  for (const auto& origin : origins) text += (text.empty() ? "" : " ") + origin.name;
  return text;
}

std::string worst_text(const std::optional<Comparison>& comparison) {
  if (!comparison || comparison->max_absolute == 0) return "-";
  return fmt::format("[{}] {:g} ({:g})", fmt::join(comparison->worst_index, ","), comparison->worst_actual,
                     comparison->worst_expected);
}

Json comparison_json(const std::optional<Comparison>& comparison) {
  if (!comparison) return nullptr;
  return {{"relative_l2", comparison->relative_l2},
          {"max_absolute", comparison->max_absolute},
          {"max_relative", comparison->max_relative},
          {"nan_mismatches", comparison->nan_mismatches},
          {"infinity_mismatches", comparison->infinity_mismatches},
          {"worst_index", comparison->worst_index},
          {"worst_actual", comparison->worst_actual},
          {"worst_expected", comparison->worst_expected}};
}

Json difference_json(const EngineDifference& difference) {
  Json json = {{"layers", Json::array()}, {"outputs", Json::array()}};
  for (const auto& layer : difference.layers) {
    std::vector<std::string> nodes;
    for (const auto& origin : layer.origins) nodes.push_back(origin.name);
    json["layers"].push_back({{"layer", layer.layer},
                              {"type", layer.type},
                              {"tactic", layer.tactic},
                              {"output", layer.output},
                              {"onnx_nodes", nodes},
                              {"local", comparison_json(layer.local)},
                              {"limit", layer.limit},
                              {"accumulated", comparison_json(layer.accumulated)},
                              {"bad", layer.bad()}});
  }
  for (const auto& [name, comparison] : difference.outputs) {
    json["outputs"].push_back({{"name", name}, {"error", comparison_json(comparison)}});
  }
  return json;
}

void print_difference(const EngineDifference& difference) {
  // Numbers first: names of fused layers are long.
  Table table({{"local", Table::Align::Right},
               {"limit", Table::Align::Right},
               {"accumulated", Table::Align::Right},
               {""},
               {"worst element: engine (oracle)"},
               {"tactic"},
               {"ONNX nodes (or the layer that was added)"}});
  for (const auto& layer : difference.layers) {
    const auto& shown = layer.accumulated ? layer.accumulated : layer.local;
    table.add({error_text(layer.local), layer.local ? fmt::format("{:.2e}", layer.limit) : "-",
               error_text(layer.accumulated), layer.bad() ? "BAD" : "", worst_text(shown), layer.tactic,
               layer.origins.empty() ? layer.layer : nodes_text(layer.origins)});
  }
  if (!difference.layers.empty())
    say("Relative L2 errors. local: the layer's own work on the operands it had; accumulated: against the "
        "oracle's run.\n\n{}\n",
        table.text());
  for (const auto& [name, comparison] : difference.outputs)
    say("output {}: {}\n", name, comparison.to_string());
}

std::vector<Tensor> make_inputs(const Graph& graph, Context& context,
                                const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < context.engine().inputs().size(); ++i) {
    const auto& info = context.engine().inputs()[i];
    const Extents extents = context.input_extents(i);
    const std::string* file = find_named(files, info.name);
    inputs.push_back(file != nullptr
                         ? load_input(*file, info.name, info.dtype, extents)
                         : random_tensor(info.dtype, extents, integer_range(graph, graph.inputs()[i])));
  }
  return inputs;
}

bool has_narrow_floats(const Graph& graph) {
  for (size_t id = 0; id < graph.value_count(); ++id) {
    const DType type = graph.value(static_cast<ValueId>(id)).dtype;
    if (is_float(type) && dtype_info(type).bits < 32) return true;
  }
  return false;
}

bool is_quantized(const Graph& graph) {
  return std::any_of(graph.order().begin(), graph.order().end(),
                     [&](NodeId id) { return std::holds_alternative<QuantizeLinear>(graph.node(id).op); });
}

// What the outputs' error may be when the user does not say: that of the widest rounding in engine or model.
// A model that quantises takes a whole step where a sum lies between two, and later layers carry it on
// (ResNet-50: 2e-2; 1.4e-2 between ONNX Runtime with and without its optimisations).
double default_threshold(const Graph& model, const Graph& engine) {
  constexpr double kFloat32 = 1e-5, kNarrow = 2e-2, kQuantized = 5e-2;
  if (is_quantized(model)) return kQuantized;
  return has_narrow_floats(engine) || has_narrow_floats(model) ? kNarrow : kFloat32;
}

// The layer at which errors leave the budget: the first whose own work is at fault, else the first whose
// result has gathered more than the outputs may have.
const EngineLayerDifference* first_beyond(const EngineDifference& difference, double threshold) {
  if (const auto* bad = difference.first_bad()) return bad;
  for (const auto& layer : difference.layers)
    if (layer.accumulated && !layer.accumulated->within(threshold) && !layer.origins.empty()) return &layer;
  return nullptr;
}

// The worst output of an engine of these nodes alone, against the reference.
Comparison compare_alone(const IsolatedNodes& part, const Engine& engine, bool narrow, ThreadPool& pool) {
  NullObserver observer;
  Builder builder(engine.backend(), observer);
  BuildOptions options;
  options.best = narrow;
  const auto built = builder.build({.graph = std::make_shared<Graph>(part.graph)}, options);
  const std::vector<Tensor> actual = built->create_context(0)->run(part.inputs),
                            expected = interpret(part.graph, part.inputs, {.pool = &pool});
  Comparison worst;
  for (size_t i = 0; i < actual.size(); ++i)
    if (const Comparison one = compare(actual[i], expected[i]); one.relative_l2 >= worst.relative_l2)
      worst = one;
  return worst;
}

// The model, and what its inputs were as raw files beside it; the command that runs both.
std::string write_part(const IsolatedNodes& part, const std::string& file) {
  export_onnx(part.graph, std::filesystem::path(file));
  std::string inputs;
  for (size_t i = 0; i < part.inputs.size(); ++i) {
    const std::string data = fmt::format("{}.input{}.bin", file, i);
    const auto bytes = part.inputs[i].bytes();
    write_file_atomically(data, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    inputs +=
        fmt::format("{}'{}':{}", i == 0 ? "" : ",", part.graph.value(part.graph.inputs()[i]).name, data);
  }
  return fmt::format("trtexec --onnx={} --loadInputs={} --exportOutput=out.json", file, inputs);
}

struct Bisection {
  std::string layer, tactic, command;
  bool is_own_fault = false;                          // the layer's own work, not what it was given
  std::vector<std::string> nodes;                     // that are in the file
  Comparison in_engine;                               // of the layer
  std::vector<std::pair<std::string, double>> alone;  // each ONNX node of the layer as an engine of its own
};

std::optional<Bisection> bisect(const EngineDifference& difference, const Graph& model, const Engine& engine,
                                std::span<const Tensor> inputs, double threshold, const std::string& file,
                                ThreadPool& pool) {
  const EngineLayerDifference* layer = first_beyond(difference, threshold);
  if (layer == nullptr) return std::nullopt;
  Bisection result{.layer = layer->layer, .tactic = layer->tactic, .is_own_fault = layer->bad()};
  result.in_engine = layer->bad() ? *layer->local : *layer->accumulated;
  std::set<std::string> all;
  for (const Origin& origin : layer->origins) all.insert(origin.name);
  std::set<std::string> kept = all;
  for (const Origin& origin : layer->origins) {
    if (all.size() == 1) break;
    const IsolatedNodes one = isolate_nodes(model, {origin.name}, inputs, &pool);
    const Comparison error = compare_alone(one, engine, has_narrow_floats(engine.graph(0)), pool);
    result.alone.emplace_back(origin.name, error.relative_l2);
    if (kept.size() > 1 && !error.within(threshold)) kept = {origin.name};
  }
  result.nodes.assign(kept.begin(), kept.end());
  result.command = write_part(isolate_nodes(model, kept, inputs, &pool), file);
  return result;
}

Json bisection_json(const std::optional<Bisection>& bisection) {
  if (!bisection) return nullptr;
  Json alone = Json::object();
  for (const auto& [node, error] : bisection->alone) alone[node] = error;
  return {{"layer", bisection->layer},
          {"tactic", bisection->tactic},
          {"own_fault", bisection->is_own_fault},
          {"error", bisection->in_engine.relative_l2},
          {"nodes", bisection->nodes},
          {"alone", alone},
          {"command", bisection->command}};
}

void print_bisection(const std::optional<Bisection>& bisection, const std::string& file) {
  if (!bisection) return say("\nEvery layer is within the budget: there is nothing to bisect.\n");
  say("\nThe first to leave the budget: {} ({}), {}: {}\n", bisection->layer, bisection->tactic,
      bisection->is_own_fault ? "by its own work" : "by what it was given and its own work",
      bisection->in_engine.to_string());
  for (const auto& [node, error] : bisection->alone) say("  {} alone: {:.2e}\n", node, error);
  say("wrote {} with {} and what they read:\n  {}\n", file, fmt::join(bisection->nodes, ", "),
      bisection->command);
}

// The outputs alone: of what lies between, another runtime says nothing.
EngineDifference diff_outputs(const OnnxRuntime& runtime, const std::string& file, const Graph& model,
                              Context& context, std::span<const Tensor> inputs) {
  std::vector<std::string> input_names, output_names;
  for (const ValueId id : model.inputs()) input_names.push_back(model.value(id).name);
  for (const ValueId id : model.outputs()) output_names.push_back(model.value(id).name);
  const std::vector<Tensor> expected = runtime.run(file, input_names, inputs, output_names),
                            actual = context.run(inputs);
  EngineDifference difference;
  for (size_t i = 0; i < actual.size(); ++i)
    difference.outputs.push_back({output_names[i], compare(actual[i], expected[i])});
  return difference;
}

}  // namespace

int run_diff(const Words& words) {
  const CommandWords arguments(words, command_syntax("diff"));
  if (arguments.positional().size() != 2)
    throw_input_error("diff takes a model and an engine: lathe diff model.onnx model.engine");
  InferenceFlags flags;
  flags.shapes = parse_shapes("--shapes", arguments.value("--shapes"));
  for (const auto& item : split_list(arguments.value("--loadInputs")))
    flags.inputs.push_back(parse_named_value(item));
  const SystemFlags system = system_flags_of(arguments);
  const int profile =
      arguments.has("--useProfile") ? parse_int("--useProfile", arguments.value("--useProfile")) : 0;

  std::optional<double> given_threshold;
  if (arguments.has("--threshold"))
    given_threshold = static_cast<double>(parse_float("--threshold", arguments.value("--threshold")));

  require_writable(arguments.value("--bisect"));
  std::optional<OnnxRuntime> runtime;
  if (arguments.has("--against")) {
    if (arguments.has("--bisect"))
      throw_input_error(
          "--bisect looks into layers, and ONNX Runtime gives outputs alone: leave --against or --bisect "
          "out");
    runtime.emplace(arguments.value("--against"));
  }

  Log log(stderr, stderr);  // stdout is for the result
  NullObserver observer;
  for (const auto& file : arguments.positional()) MappedFile::open(file);  // both, before any work
  const auto plugins = open_plugins(system, nullptr);
  const ImportedModel model = import_onnx(arguments.positional()[0], observer, {.plugins = plugins.get()});
  const auto engine = load_engine(arguments.positional()[1], open_device(system), plugins, log);
  const auto context = engine->create_context(profile);
  check_input_names(names_of(flags.shapes), engine->inputs(), "--shapes");
  check_input_names(names_of(flags.inputs), engine->inputs(), "--loadInputs");
  set_run_shapes(*context, flags, log);
  const auto inputs = make_inputs(model.graph, *context, flags.inputs);
  if (model.graph.inputs().size() != inputs.size()) {
    throw_input_error(fmt::format("{} has {} inputs, {} has {}: not an engine of this model",
                                  arguments.positional()[0], model.graph.inputs().size(),
                                  arguments.positional()[1], inputs.size()));
  }
  ThreadPool pool(system.cpu_threads);
  const EngineDifference difference =
      runtime ? diff_outputs(*runtime, arguments.positional()[0], model.graph, *context, inputs)
              : diff_engine(model.graph, *context, inputs, &pool);
  const double threshold = given_threshold.value_or(default_threshold(model.graph, engine->graph(profile)));
  const bool outputs_fit =
      std::all_of(difference.outputs.begin(), difference.outputs.end(),
                  [&](const auto& output) { return output.comparison.within(threshold); });
  const auto* bad = difference.first_bad();
  const std::string part = arguments.value("--bisect");
  std::optional<Bisection> bisection;
  if (!part.empty()) bisection = bisect(difference, model.graph, *engine, inputs, threshold, part, pool);
  if (arguments.has("--json")) {
    Json json = difference_json(difference);
    json["threshold"] = threshold;
    json["against"] = runtime ? "ONNX Runtime " + runtime->version() : "the reference interpreter";
    json["passed"] = outputs_fit && bad == nullptr;
    if (!part.empty()) json["bisection"] = bisection_json(bisection);
    say("{}\n", dump_json(json));
  } else {
    print_difference(difference);
    if (bad != nullptr) {
      say("\nFirst layer out of tolerance: {} ({}), ONNX nodes {}: {}\n", bad->layer, bad->tactic,
          nodes_text(bad->origins), bad->local->to_string());
    }
    say("\n{}: outputs {} {:g}, {}\n", outputs_fit && bad == nullptr ? "PASSED" : "FAILED",
        outputs_fit ? "within" : "not within", threshold,
        runtime ? fmt::format("compared with ONNX Runtime {}", runtime->version())
                : fmt::format("{} layers compared", difference.layers.size()));
    if (!part.empty()) print_bisection(bisection, part);
  }
  return outputs_fit && bad == nullptr ? 0 : 1;
}

}  // namespace lathe::cli
