// SPDX-License-Identifier: Apache-2.0
//
// Joins what the files say. The profile is joined by name, occurrence by occurrence for names that occur more
// than once, never by position; every layer without a time and every record without a layer is reported with
// its time. Times are kept in the digits of the file.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "base/error.h"
#include "explorer/core/analyse.h"
#include "explorer/core/decimal.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

// "a, b, c and 7 more"
std::string names_text(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::string role_of(const InputFile& file) {
  switch (file.kind) {
    case FileKind::Layers:
      return "layers";
    case FileKind::Profile:
      return "profile";
    case FileKind::Times:
      return "times";
    case FileKind::Accuracy:
      return "accuracy";
    case FileKind::Hardware:
      return "hardware";
    case FileKind::Model:
      return "model";
    case FileKind::LayerRuns:
      return "layer_runs";
    case FileKind::Log:
    case FileKind::Metadata:
      break;
  }
  return read_log(file).find("Performance summary") != nullptr ? "profiling_log" : "build_log";
}

const InputFile& only_layer_file(const std::vector<InputFile>& files) {
  const InputFile* found = nullptr;
  for (const auto& file : files) {
    if (file.kind != FileKind::Layers) continue;
    if (found != nullptr)
      throw_input_error(
          fmt::format("{} and {} are both layer information: one engine has one", found->name, file.name));
    found = &file;
  }
  if (found == nullptr) {
    throw_input_error(
        fmt::format("{}: no layer information among the files: write it with --exportLayerInfo=FILE "
                    "--profilingVerbosity=detailed",
                    files.empty() ? "(no files)" : files.front().name));
  }
  return *found;
}

// r50.engine.graph.json, r50.layers.json, layers.json -> r50, r50, layers
std::string file_title(const std::string& file) {
  std::string name = std::filesystem::path(file).filename().string();
  for (const char* suffix : {".json", ".graph", ".layers", ".engine", ".layer_info", ".layerinfo"}) {
    if (name.size() > std::string_view(suffix).size() && name.ends_with(suffix))
      name.resize(name.size() - std::string_view(suffix).size());
  }
  return name;
}

// Layers and bindings of one shape profile; records carry the same suffixes.
void select_shape_profile(EngineData& engine, const std::vector<ProfileFile>& profiles,
                          const std::optional<int>& asked) {
  int wanted = asked.value_or(0);
  bool several = false;
  for (const auto& layer : engine.layers) several = several || shape_profile_of(layer.name) != 0;
  if (!several) return;
  if (!asked && !profiles.empty()) {
    std::map<int, size_t> counts;
    for (const auto& record : profiles.front().records) ++counts[shape_profile_of(record.name)];
    for (const auto& [number, count] : counts) {
      if (count > counts[wanted]) wanted = number;
    }
  }
  const auto belongs = [&](const auto& item) { return shape_profile_of(item.name) == wanted; };
  const size_t before = engine.layers.size();
  std::erase_if(engine.layers, [&](const Layer& layer) { return !belongs(layer); });
  // Some dialects name bindings once for all profiles, and only the layers' tensors say which.
  if (std::any_of(engine.bindings.begin(), engine.bindings.end(), belongs)) {
    std::erase_if(engine.bindings, [&](const Binding& binding) { return !belongs(binding); });
  } else {
    for (auto& binding : engine.bindings) binding.name += fmt::format(" [profile {}]", wanted);
  }
  if (engine.layers.empty())
    throw_input_error(
        fmt::format("{}: no layer belongs to shape profile {}", engine.sources.front().file, wanted));
  engine.note("info", fmt::format("Shape profile {} is shown; {} layers of other profiles were left out.",
                                  wanted, before - engine.layers.size()));
}

void make_names_unique(std::vector<Layer>& layers) {
  std::unordered_map<std::string, int> seen;
  for (auto& layer : layers) {
    const int count = ++seen[layer.name];
    if (count > 1) layer.name = fmt::format("{}_{}", layer.name, count);
  }
}

// The times of `profile` go to the layers that their names say. `first_names` are the names before they were
// made unique.
void join_profile(EngineData& engine, const ProfileFile& profile, const std::string& file,
                  const std::vector<std::string>& first_names) {
  std::unordered_map<std::string, std::vector<size_t>> layers_of;
  for (size_t i = 0; i < first_names.size(); ++i) layers_of[first_names[i]].push_back(i);
  std::unordered_map<std::string, size_t> used;
  std::vector<std::string> strangers;
  ExactSum strange_ms;
  size_t joined = 0;
  for (const auto& record : profile.records) {
    const auto found = layers_of.find(record.name);
    const size_t nth = found == layers_of.end() ? 0 : used[record.name]++;
    if (found == layers_of.end() || nth >= found->second.size()) {
      strangers.push_back(record.name);
      strange_ms.add(record.time.average_ms);
      continue;
    }
    engine.layers[found->second[nth]].time = record.time;
    ++joined;
  }
  if (joined == 0) {
    throw_input_error(
        fmt::format("{}: none of its {} names is a layer of {} (first: \"{}\" against \"{}\"): these files "
                    "are not of one engine",
                    file, profile.records.size(), engine.sources.front().file, profile.records.front().name,
                    first_names.front()));
  }
  if (!strangers.empty()) {
    const bool one = strangers.size() == 1;
    engine.note("error",
                fmt::format("{}: {} ({} per run) {}: {}", file,
                            one ? "1 record" : fmt::format("{} records", strangers.size()),
                            ms_text(strange_ms.value()),
                            one ? "names no layer and is not shown" : "name no layer and are not shown",
                            names_text(strangers)));
  }
  std::vector<std::string> untimed;
  std::vector<int> untimed_layers;
  for (size_t i = 0; i < engine.layers.size(); ++i) {
    const auto& layer = engine.layers[i];
    if (layer.time || layer.runner == "Constant" || layer.runner == "NoOp" || layer.type == "Constant" ||
        layer.type == "NoOp")
      continue;
    untimed.push_back(layer.name);
    untimed_layers.push_back(static_cast<int>(i));
  }
  if (!untimed.empty())
    engine.note("warning", fmt::format("{}: {} no record; {} time is not known: {}", file,
                                       untimed.size() == 1 ? "1 layer has"
                                                           : fmt::format("{} layers have", untimed.size()),
                                       untimed.size() == 1 ? "its" : "their", names_text(untimed)));
  engine.statistics.profile_iterations = profile.iterations;
}

// Single runs of the profile go to their layers.
void join_layer_runs(EngineData& engine, const LayerRunsFile& file, const std::string& name,
                     const std::vector<std::string>& first_names) {
  std::unordered_map<std::string, std::vector<size_t>> columns;
  for (size_t i = 0; i < file.layers.size(); ++i) columns[file.layers[i]].push_back(i);
  std::unordered_map<std::string, size_t> used;
  bool any = false;
  for (size_t layer = 0; layer < first_names.size(); ++layer) {
    const auto found = columns.find(first_names[layer]);
    if (found == columns.end()) continue;
    const size_t nth = used[first_names[layer]]++;
    if (nth >= found->second.size()) continue;
    any = true;
    for (const auto& run : file.times_ms) engine.layers[layer].runs_ms.push_back(run[found->second[nth]]);
  }
  if (!any) {
    engine.note("warning", name + ": none of its names is a layer of this engine");
    return;
  }
  engine.layer_runs = LayerRuns{file.count, file.numbers};
}

void join_accuracy(EngineData& engine, const std::vector<AccuracyRecord>& records, const std::string& file) {
  std::unordered_map<std::string, size_t> index;
  for (size_t i = 0; i < engine.layers.size(); ++i) index.emplace(engine.layers[i].name, i);
  size_t joined = 0;
  for (const auto& record : records) {
    const auto found = index.find(record.layer);
    if (found == index.end()) continue;
    ++joined;
    auto& error =
        engine.layers[found->second].error;  // a layer with several outputs has several: the worst counts
    if (!error || record.error.local.value_or(0) > error->local.value_or(0)) error = record.error;
  }
  if (joined != records.size())
    engine.note("warning", fmt::format("{}: {} of {} accuracy records name no layer of this engine", file,
                                       records.size() - joined, records.size()));
}

void take_log(EngineData& engine, const LogFile& log) {
  const auto take = [&](Texts& to, std::string_view title) {
    if (const Texts* texts = log.find(title)) to = *texts;
  };
  take(engine.model_options, "Model Options");
  take(engine.build_options, "Build Options");
  take(engine.inference_options, "Inference Options");
  take(engine.device.properties, "Device Information");
  take(engine.statistics.summary, "Performance summary");
  if (!log.date.empty()) engine.date = log.date;
  if (const auto file = value_of(engine.model_options, "Model"); !file.empty() && engine.model_file.empty()) {
    engine.model_file = file;
    engine.model_name = std::filesystem::path(file).stem().string();
  }
  for (const char* key : {"Save engine", "Load engine"}) {
    if (const auto file = value_of(engine.build_options, key); !file.empty() && engine.engine_file.empty())
      engine.engine_file = file;
  }
  engine.device.name = value_of(engine.device.properties, "Selected Device");
  if (engine.device.name.empty()) return;
  const bool cpu = value_of(engine.device.properties, "Selected Device ID") == "cpu";
  engine.device.kind = cpu ? "cpu" : "gpu";
}

}  // namespace

EngineData assemble_engine(const std::vector<InputFile>& files, const AnalysisOptions& options) {
  const InputFile& layer_file = only_layer_file(files);
  LayerFile layers = read_layers(layer_file);
  EngineData engine;
  engine.name = options.name.empty() ? file_title(layer_file.name) : options.name;
  engine.sources.push_back({"layers", layer_file.name, layers.dialect});
  engine.layers = std::move(layers.layers);
  engine.bindings = std::move(layers.bindings);
  engine.names_only = layers.names_only;
  engine.build_settings = std::move(layers.settings);
  engine.producer = std::move(layers.producer);
  engine.memory.arena_bytes = layers.arena_bytes;
  engine.engine_file = options.engine_file;
  if (engine.names_only) {
    engine.note("warning",
                "The layer file has names only: no shapes, types or tactics. Build with "
                "--profilingVerbosity=detailed for the rest.");
  }
  std::vector<ProfileFile> profiles;
  std::vector<std::string> profile_names;
  for (const auto& file : files) {
    if (file.repaired)
      engine.note("info",
                  file.name + ": raw control characters in names were escaped; the file is not strict JSON.");
    if (&file == &layer_file) continue;
    const bool ours = file.kind == FileKind::Accuracy || file.kind == FileKind::Hardware ||
                      file.kind == FileKind::Model || file.kind == FileKind::LayerRuns;
    engine.sources.push_back({role_of(file), file.name, ours ? "lathe" : "trtexec"});
    if (file.kind == FileKind::Profile) {
      if (!profiles.empty())
        throw_input_error(
            fmt::format("{} and {} are both profiles: one engine has one", profile_names.front(), file.name));
      profiles.push_back(read_profile(file));
      profile_names.push_back(file.name);
    } else if (file.kind == FileKind::Times) {
      engine.iterations = read_times(file);
    } else if (file.kind == FileKind::Hardware) {
      HardwareFile hardware = read_hardware(file);
      engine.hardware_text = std::move(hardware.text);
      engine.hardware_samples = std::move(hardware.samples);
    } else if (file.kind == FileKind::Model) {
      if (engine.onnx)
        throw_input_error(
            fmt::format("{} and {} are both models: one engine is of one", engine.onnx->file, file.name));
      engine.onnx = read_model(file);
    } else if (file.kind != FileKind::Accuracy && file.kind != FileKind::LayerRuns) {
      take_log(engine, read_log(file));
    }
  }
  if (engine.onnx && engine.model_file.empty()) {
    engine.model_file = engine.onnx->file;
    engine.model_name = std::filesystem::path(engine.model_file).stem().string();
  }
  select_shape_profile(engine, profiles, options.shape_profile);
  std::vector<std::string> first_names;
  for (const auto& layer : engine.layers) first_names.push_back(layer.name);
  make_names_unique(engine.layers);
  if (!profiles.empty()) {
    join_profile(engine, profiles.front(), profile_names.front(), first_names);
  } else {
    engine.note("info", "No profile was given, so no layer has a time: trtexec --exportProfile writes one.");
  }
  for (const auto& file : files) {
    if (file.kind == FileKind::LayerRuns)
      join_layer_runs(engine, read_layer_runs(file), file.name, first_names);
    if (file.kind == FileKind::Accuracy) join_accuracy(engine, read_accuracy(file), file.name);
  }
  for (auto& layer : engine.layers) layer.label = layer_label(layer.name);
  return engine;
}

std::vector<std::vector<InputFile>> group_by_engine(std::vector<InputFile> files) {
  std::vector<std::vector<InputFile>> engines(1);
  bool has_layers = false;
  for (auto& file : files) {
    if (file.kind == FileKind::Layers) {
      if (has_layers) engines.emplace_back();
      has_layers = true;
    }
    engines.back().push_back(std::move(file));
  }
  return engines;
}

EngineData analyse_engine(const std::vector<InputFile>& files, const AnalysisOptions& options) {
  EngineData engine = assemble_engine(files, options);
  build_graph(engine);
  place_onnx_nodes(engine);
  count_costs(engine);
  measure_memory(engine);
  apply_roofline(engine, options.peaks);
  summarize(engine);
  judge_measurement(engine);
  describe_run(engine);
  find_problems(engine, options.rules);
  return engine;
}

}  // namespace lathe::explorer
