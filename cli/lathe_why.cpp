// SPDX-License-Identifier: Apache-2.0
//
// `lathe why`: which layers of an engine stayed in a higher precision, or on a slower path, than the model
// and the build allow, what each costs, why, and the change that would help.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "arguments/options.h"
#include "arguments/words.h"
#include "base/json.h"
#include "builder/builder.h"
#include "commands.h"
#include "engine_setup.h"
#include "explorer/core/text.h"
#include "inference.h"
#include "onnx/quantization_plan.h"
#include "profiles.h"
#include "report/engine_layers.h"
#include "report/table.h"
#include "say.h"
#include "stream_inputs.h"
#include "terminal.h"

namespace lathe::cli {
namespace {

struct Row {
  std::string layer, type, computes_in, tactic, what;
  std::vector<std::string> nodes;
  LayerNote note;
  double ms = 0;
};

struct Answer {
  std::vector<Row> rows;  // the most expensive first
  double total_ms = 0;
  int layers = 0;
  std::vector<std::string> remarks;
};

// Average times of each layer over some runs with random inputs.
LayerProfiler measure_layers(const std::shared_ptr<const Engine>& engine, Log& log) {
  constexpr double kMilliseconds = 2000;
  constexpr int kRuns = 50, kWarmUp = 2;
  auto context = engine->create_context(0);
  set_run_shapes(*context, {}, log);
  InferenceStream stream(engine, std::move(context), 1, true);
  fill_inputs({}, stream, 0, false, log);
  stream.copy_inputs();
  LayerProfiler warm_up(engine->timed_names(0)), profiler(engine->timed_names(0));
  const auto zero = stream.record_now();
  const InferenceStream::Clock clock{zero.get(), host_now_ms()};
  QueryRecorder ignored({});
  const double start = host_now_ms();
  for (int run = 0; run < kWarmUp + kRuns && (run <= kWarmUp || host_now_ms() - start < kMilliseconds);
       ++run) {
    stream.query(clock, false, run < kWarmUp ? &warm_up : &profiler);
    stream.sync(clock, true, ignored);
  }
  return profiler;
}

std::string what_of(const LayerInfo& layer) {
  if (!layer.fallback.empty()) return "on the reference";
  if (layer.type == "Reformat") return "conversion";
  return layer.note ? "higher precision" : "";
}

std::optional<LayerNote> note_of(const LayerInfo& layer) {
  if (!layer.fallback.empty())
    return LayerNote{layer.fallback, "operators and types with a kernel: docs/operators.md"};
  if (layer.note) return layer.note;
  if (layer.type != "Reformat" || layer.inputs.empty() || layer.outputs.empty()) return std::nullopt;
  return LayerNote{fmt::format("what is stored as {} is read as {}", to_string(layer.inputs[0].type),
                               to_string(layer.outputs[0].type)),
                   "one type on both sides"};
}

Row make_row(const LayerInfo& layer, LayerNote note, double ms) {
  Row row{.layer = layer.name,
          .type = layer.parameter_type.empty() ? layer.type : layer.parameter_type,
          .tactic = layer.tactic,
          .what = what_of(layer),
          .note = std::move(note),
          .ms = ms};
  if (!layer.inputs.empty()) row.computes_in = dtype_name(layer.inputs[0].type.dtype);
  for (const Origin& origin : layer.origins) row.nodes.push_back(origin.name);
  return row;
}

// What the device has no kernels for, so that no build could have allowed it.
void add_remarks(Answer& answer, const Engine& engine, const LayerReport& report) {
  answer.remarks.push_back("built with: " + report.settings);
  if (!engine.section().timed)
    answer.remarks.emplace_back(
        "its tactics were not timed: --builderOptimizationLevel=2 or more chooses by time");
  for (const DType type : {DType::Float16, DType::BFloat16}) {
    const Support support = engine.backend()->supports_compute_type(type);
    if (!support.ok)
      answer.remarks.push_back(
          fmt::format("no layer can compute in {}: {}", dtype_name(type), support.reason));
  }
  const bool narrow = std::any_of(report.layers.begin(), report.layers.end(), [](const LayerInfo& layer) {
    return std::any_of(layer.inputs.begin(), layer.inputs.end(),
                       [](const LayerTensor& t) { return dtype_info(t.type.dtype).bits < 32; });
  });
  if (!narrow && answer.rows.empty())
    answer.remarks.emplace_back(
        "every layer computes in float32, and nothing narrower was asked for: --best lets the tuner choose, "
        "lathe "
        "quantize and lathe autocast write narrower models");
}

// A float model can be asked what `lathe quantize` would leave.
void add_model_notes(Answer& answer, const std::string& file) {
  const auto mapped = MappedFile::open(file);
  const onnx::ModelProto model = onnx::parse_model(mapped->bytes());
  std::map<std::string, std::string> left;
  try {
    for (const auto& node : onnx::plan_quantization(model).left) left[node.node] = node.reason;
  } catch (const Error&) {
    return;  // quantised already, or too old: nothing to add
  }
  for (Row& row : answer.rows)
    for (const std::string& node : row.nodes)
      if (const auto found = left.find(node); found != left.end())
        row.note.hint += (row.note.hint.empty() ? "" : "; ") +
                         ("lathe quantize would leave '" + node + "': ") + found->second;
}

Answer explain(const std::shared_ptr<const Engine>& engine, Log& log) {
  const LayerProfiler times = measure_layers(engine, log);
  const SymbolValues opt = opt_symbols(*engine, 0);
  const LayerReport report = describe_layers(*engine->plan(), engine->variant(0), opt);
  Answer answer{.layers = static_cast<int>(report.layers.size())};
  for (size_t i = 0; i < report.layers.size(); ++i) {
    const double ms = times.runs() > 0 ? times.average_ms(i) : report.layers[i].tactic_ms;
    answer.total_ms += ms;
    if (auto note = note_of(report.layers[i]))
      answer.rows.push_back(make_row(report.layers[i], std::move(*note), ms));
  }
  std::stable_sort(answer.rows.begin(), answer.rows.end(),
                   [](const Row& a, const Row& b) { return a.ms > b.ms; });
  LayerReport all = report;
  all.settings = engine->section().settings;
  add_remarks(answer, *engine, all);
  return answer;
}

Json to_json(const Answer& answer) {
  Json rows = Json::array();
  for (const Row& row : answer.rows)
    rows.push_back({{"layer", row.layer},
                    {"type", row.type},
                    {"onnx_nodes", row.nodes},
                    {"what", row.what},
                    {"reads", row.computes_in},
                    {"tactic", row.tactic},
                    {"ms", row.ms},
                    {"share", answer.total_ms > 0 ? row.ms / answer.total_ms : 0},
                    {"reason", row.note.reason},
                    {"hint", row.note.hint}});
  return {
      {"layers", answer.layers}, {"total_ms", answer.total_ms}, {"found", rows}, {"remarks", answer.remarks}};
}

void print(const Answer& answer) {
  double ms = 0;
  for (const Row& row : answer.rows) ms += row.ms;
  const double percent = answer.total_ms > 0 ? 100 / answer.total_ms : 0;
  say("{} of {} layers, {:.1f} % of {:.3g} ms, could be faster in another type or on another path.\n",
      answer.rows.size(), answer.layers, ms * percent, answer.total_ms);
  for (const std::string& remark : answer.remarks) say("  {}\n", remark);
  if (answer.rows.empty()) return;
  constexpr size_t kShown = 25;
  Table table({{"ms", Table::Align::Right},
               {"%", Table::Align::Right},
               {"what"},
               {"reads"},
               {"layer", Table::Align::Left, 16}});
  for (size_t i = 0; i < std::min(kShown, answer.rows.size()); ++i) {
    const Row& row = answer.rows[i];
    table.add({explorer::three_digits(row.ms), fmt::format("{:.1f}", row.ms * percent), row.what,
               row.computes_in, explorer::layer_label(row.layer)});
  }
  say("\n{}", table.text(terminal_width()));
  if (answer.rows.size() > kShown) say("  {} more in --json\n", answer.rows.size() - kShown);
  say("\nReasons, by the time that they cost:\n\n");
  struct Group {
    double ms = 0;
    std::string hint;
    std::vector<std::string> layers;
  };
  std::map<std::string, Group> groups;
  for (const Row& row : answer.rows) {
    Group& group = groups[row.note.reason];
    group.ms += row.ms;
    group.hint = row.note.hint;
    group.layers.push_back(explorer::layer_label(row.layer));
  }
  std::vector<std::pair<std::string, Group>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  for (size_t i = 0; i < std::min(kShown, sorted.size()); ++i) {
    const auto& [reason, group] = sorted[i];
    say("  {} ms  {}{}\n      {}\n", explorer::three_digits(group.ms), group.layers[0],
        group.layers.size() > 1 ? fmt::format(" and {} more", group.layers.size() - 1) : "", reason);
    if (!group.hint.empty()) say("      would help: {}\n", group.hint);
  }
}

std::shared_ptr<const Engine> build(const std::string& model, const CommandWords& arguments, Log& log) {
  Words flags = arguments.passed();
  flags.push_back("--onnx=" + model);
  const auto asks = [](const std::string& word) {
    static const std::set<std::string> kTypes = {"--fp16", "--bf16", "--best", "--int8", "--stronglyTyped"};
    return kTypes.contains(word);
  };
  if (std::none_of(flags.begin(), flags.end(), asks)) flags.emplace_back("--best");
  const Options options = parse_options(flags);
  if (!options.refusals.empty()) throw_input_error(options.refusals.front());
  MemoryUse memory(log);
  return set_up_engine(options, open_device(options.system, options.build.tf32),
                       open_plugins(options.system, nullptr, options.build.plugins_to_serialize), memory, log)
      .engine;
}

bool is_model(const std::string& file) {
  const auto mapped = MappedFile::open(file);
  return file.ends_with(".onnx") || (!mapped->bytes().empty() && mapped->bytes()[0] == std::byte{0x08});
}

}  // namespace

int run_why(const Words& words) {
  const CommandWords arguments(words, command_syntax("why"));
  const auto& files = arguments.positional();
  if (files.empty() || files.size() > 2)
    throw_input_error("why takes a model, an engine, or both: lathe why model.onnx model.engine");
  const bool has_model = is_model(files[0]);
  if (files.size() == 2 && (!has_model || is_model(files[1])))
    throw_input_error("why takes the model first, then its engine: lathe why model.onnx model.engine");
  Log log(stderr, stderr);  // stdout is for the result
  const bool builds = files.size() == 1 && has_model;
  const auto engine = builds ? build(files[0], arguments, log)
                             : load_engine(files.back(), open_device(system_flags_of(arguments)),
                                           open_plugins(system_flags_of(arguments), nullptr), log);
  Answer answer = explain(engine, log);
  if (has_model) add_model_notes(answer, files[0]);
  if (arguments.has("--json"))
    say("{}\n", dump_json(to_json(answer)));
  else
    print(answer);
  return 0;
}

}  // namespace lathe::cli
