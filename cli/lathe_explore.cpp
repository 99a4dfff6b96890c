// SPDX-License-Identifier: Apache-2.0
//
// `lathe explore`: where the time goes. Files are read as they are; an engine is run first, once without and
// once with times per layer, and its reports are read like anyone's.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "archive.h"
#include "arguments/arguments.h"
#include "arguments/words.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "commands.h"
#include "engine_setup.h"
#include "explorer/core/analyse.h"
#include "explorer/core/analysis_json.h"
#include "explorer/core/text.h"
#include "explorer/core/write_layers.h"
#include "explorer/web/report_page.h"
#include "measure_peaks.h"
#include "output_file.h"
#include "profile_engine.h"
#include "report/model_graph.h"
#include "report/table.h"
#include "say.h"
#include "terminal.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;
using explorer::Analysis;
using explorer::InputFile;
using explorer::Peaks;

// "FP32=1.2T,BF16=4e12,memory=40G,launch=3us"; "measure" and "estimate" are for the caller.
Peaks parse_peaks(const std::string& text) {
  Peaks peaks;
  if (text.empty() || text == "measure" || text == "estimate") return peaks;
  for (const auto& item : split_list(text)) {
    const size_t equals = item.find('=');
    double value = 0;
    const char* end = item.data() + item.size();
    const auto parsed = equals == std::string::npos
                            ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                            : std::from_chars(item.data() + equals + 1, end, value);
    std::string unit = parsed.ec == std::errc() ? std::string(parsed.ptr, end) : "";
    const std::string name = item.substr(0, equals);
    for (const auto& [prefix, factor] :
         {std::pair{'k', 1e3}, {'M', 1e6}, {'G', 1e9}, {'T', 1e12}, {'P', 1e15}}) {
      if (unit.size() == 1 && unit[0] == prefix) value *= factor, unit.clear();
    }
    if (unit == "us" && name == "launch") value /= 1e3, unit.clear();
    if (unit == "ms" && name == "launch") unit.clear();
    if (parsed.ec != std::errc() || !unit.empty() || value <= 0) {
      throw_input_error(
          fmt::format("--peaks: \"{}\" is not <type>=<flops per second>, memory=<bytes per second> or "
                      "launch=<time>: for example "
                      "--peaks=FP32=1.2T,BF16=4.1T,memory=40G,launch=2us",
                      item));
    }
    if (name == "memory") {
      peaks.bytes_per_s = value;
    } else if (name == "launch") {
      peaks.launch_ms = value;
    } else {
      peaks.flops_per_s[name] = value;
    }
  }
  peaks.source = "given";
  return peaks;
}

bool is_model_file(const std::string& path) {
  return fs::path(path).extension() == ".onnx";
}

// The explorer reads no ONNX: it gets the model's nodes as JSON.
InputFile load_model(const std::string& path) {
  return explorer::recognise_file(path, dump_json(model_graph_json(path), -1));
}

// The engine's own name tells a plan from text: a plan begins with neither JSON nor a log.
bool is_engine_file(const std::string& path) {
  if (!fs::is_regular_file(path) || is_archive(path) || is_model_file(path)) return false;
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes().first(std::min<size_t>(file->bytes().size(), 64));
  for (const std::byte b : bytes) {
    if (b == std::byte{0}) return true;
  }
  return false;
}

// Engines and layer files, and what stands between them; models apart.
struct Given {
  std::vector<std::string> files, models;
};

Given files_of(const CommandWords& arguments) {
  Given given;
  given.files = split_list(arguments.value("--layers"));
  given.models = split_list(arguments.value("--onnx"));
  for (const auto& item : arguments.positional())
    (is_model_file(item) ? given.models : given.files).push_back(item);
  if (!given.files.empty()) return given;
  if (given.models.empty())
    throw_input_error("explore what? An engine, or its JSON files: lathe help explore");
  throw_input_error(fmt::format(
      "{} is a model, which has no times: give its engine or the engine's JSON files beside it, or build and "
      "profile one with `lathe process {} out`",
      given.models.front(), given.models.front()));
}

struct EngineFiles {
  std::vector<InputFile> files;
  std::string engine;  // the engine file that gave them, "" for files that were given
  std::string name;    // "" = the engine's
};

std::string stem_of(const std::string& engine) {
  const std::string name = fs::path(engine).filename().string();
  return name.ends_with(".engine") ? name.substr(0, name.size() - 7) : name;
}

// "input:1x3x8x8;input:4x3x8x8": runs of each engine, in this order. One without shapes when the flag is not
// given.
std::vector<std::string> parse_sweep(const std::string& text) {
  std::vector<std::string> runs;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(';', start), text.size());
    runs.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  for (const auto& run : runs) {
    if (runs.size() > 1 && run.empty())
      throw_input_error(
          fmt::format("--sweep: \"{}\" holds an empty run; write shapes as --shapes has them, runs with "
                      "';' between: --sweep='input:1x3x224x224;input:8x3x224x224'",
                      text));
  }
  return runs;
}

// Runs an engine once for each of the sweep's shapes.
void run_engine(const std::string& path, const Words& run_flags, const std::vector<std::string>& sweep,
                ProgressLine& progress, std::vector<EngineFiles>& engines) {
  for (const auto& shapes : sweep) {
    Words flags = run_flags;
    if (!shapes.empty()) flags.push_back("--shapes=" + shapes);
    // Two runs of some seconds: whoever waits should know for what.
    progress.say(fmt::format("running {}{}, then once more for times per layer", path,
                             shapes.empty() ? "" : " with " + shapes));
    // Of one input the extents say enough.
    const bool one = shapes.find(',') == std::string::npos && shapes.find(':') != std::string::npos;
    engines.push_back(
        {profile_engine(path, flags), path,
         shapes.empty() ? "" : stem_of(path) + " " + (one ? shapes.substr(shapes.rfind(':') + 1) : shapes)});
  }
}

// One list of files per engine: engine files run and give their own, JSON files form groups as they come.
std::vector<EngineFiles> gather(const std::vector<std::string>& paths, const Words& run_flags,
                                const std::vector<std::string>& sweep, ProgressLine& progress) {
  std::vector<EngineFiles> engines;
  std::vector<InputFile> loose;
  const auto flush = [&] {
    if (loose.empty()) return;
    for (auto& group : explorer::group_by_engine(std::move(loose)))
      engines.push_back({std::move(group), "", ""});
    loose.clear();
  };
  for (const auto& path : paths) {
    if (is_archive(path)) {
      flush();
      engines.push_back({read_archive(path), "", ""});
    } else if (is_engine_file(path)) {
      flush();
      run_engine(path, run_flags, sweep, progress, engines);
    } else {
      loose.push_back(explorer::load_file(path));
      // An accuracy file or log after an engine belongs to that engine.
      if (loose.size() == 1 && loose[0].kind != explorer::FileKind::Layers && !engines.empty()) {
        engines.back().files.push_back(std::move(loose[0]));
        loose.clear();
      }
    }
  }
  flush();
  return engines;
}

// Files that flags name: all of one engine, or the first of each flag the first engine's, and so on. One
// model may be that of several engines.
void attach_flags(const std::vector<std::pair<const char*, std::vector<InputFile>>>& given,
                  std::vector<EngineFiles>& engines) {
  for (const auto& [flag, items] : given) {
    const bool shared = flag == std::string_view("--onnx") && items.size() == 1;
    if (items.empty()) continue;
    if (engines.size() > 1 && items.size() != engines.size() && !shared)
      throw_input_error(fmt::format("{}: {} for {} engines; give one for each, in their order", flag,
                                    items.size() == 1 ? "one file" : fmt::format("{} files", items.size()),
                                    engines.size()));
    for (size_t i = 0; i < std::max(items.size(), engines.size()); ++i)
      engines[std::min(i, engines.size() - 1)].files.push_back(items[shared ? 0 : i]);
  }
}

// Read before any engine runs: a name that is wrong should cost no minute.
std::vector<std::pair<const char*, std::vector<InputFile>>> files_of_flags(
    const CommandWords& arguments, const std::vector<std::string>& models) {
  std::vector<std::pair<const char*, std::vector<InputFile>>> given;
  for (const char* flag : {"--profile", "--times", "--log", "--accuracy"}) {
    given.emplace_back(flag, std::vector<InputFile>{});
    for (const auto& item : split_list(arguments.value(flag)))
      given.back().second.push_back(explorer::load_file(item));
  }
  given.emplace_back("--onnx", std::vector<InputFile>{});
  for (const auto& model : models) given.back().second.push_back(load_model(model));
  return given;
}

void make_names_unique(std::vector<explorer::EngineData>& engines) {
  for (size_t i = 0; i < engines.size(); ++i) {
    int number = 1;
    const std::string name = engines[i].name;
    for (size_t j = 0; j < i; ++j) {
      if (engines[j].name == engines[i].name)
        engines[i].name = fmt::format("{} ({})", name, ++number), j = static_cast<size_t>(-1);
    }
  }
}

// What was written is said on stderr: stdout may hold the report itself.
void write_and_tell(const std::string& file, const std::string& text) {
  write_file_atomically(file, text);
  say_to(stderr, "wrote {} ({})\n", file, bytes_text(static_cast<int64_t>(text.size())));
}

void write_output(const std::string& file, const std::string& text) {
  if (file == "-") {
    std::fputs(text.c_str(), stdout);
  } else {
    write_and_tell(file, text);
  }
}

// Engines may run for minutes; a name that cannot be written should not cost them.
void check_outputs(const CommandWords& arguments) {
  for (const char* flag : {"-o", "--json", "--markdown", "--junit", "--trace"})
    require_writable(arguments.value(flag));
  for (const char* flag : {"--trex", "--perf-analysis"})
    if (arguments.has(flag)) require_writable(arguments.value(flag) + ".json");
}

// "out/r50" -> out/r50.graph.json and out/r50.profile.json, or out/layers_r50.json and out/profile_r50.json.
bool write_foreign(const CommandWords& arguments, const Analysis& analysis) {
  bool any = false;
  const auto write = [&](const char* flag, auto convert, auto name) {
    if (!arguments.has(flag)) return;
    any = true;
    if (analysis.engines.size() != 1) throw_input_error(fmt::format("{} writes one engine; give one", flag));
    const fs::path prefix = arguments.value(flag);
    const explorer::ForeignFiles files = convert(analysis.engines.front());
    write_and_tell(prefix.parent_path() / name("layers", prefix.filename().string()),
                   dump_json(files.layers) + "\n");
    if (!files.profile.is_null())
      write_and_tell(prefix.parent_path() / name("profile", prefix.filename().string()),
                     dump_json(files.profile) + "\n");
  };
  write("--trex", explorer::trex_files, [](const std::string& part, const std::string& name) {
    return fmt::format("{}.{}.json", name, part == "layers" ? "graph" : part);
  });
  write(
      "--perf-analysis", explorer::perf_analysis_files,
      [](const std::string& part, const std::string& name) { return fmt::format("{}_{}.json", part, name); });
  return any;
}

void write_outputs(const CommandWords& arguments, const Analysis& analysis) {
  const std::string output = arguments.value("-o"), json_file = arguments.value("--json");
  const bool page = !output.empty();
  if (page || !json_file.empty()) {
    const Json json = explorer::analysis_json(analysis);
    if (!json_file.empty()) write_output(json_file, dump_json(json) + "\n");
    if (page) write_output(output, explorer::report_page(dump_json(json, -1)));
  }
  if (arguments.has("--markdown"))
    write_output(arguments.value("--markdown"), explorer::summary_markdown(analysis));
  if (arguments.has("--junit")) write_output(arguments.value("--junit"), explorer::summary_junit(analysis));
  if (arguments.has("--trace")) write_output(arguments.value("--trace"), explorer::trace_json(analysis));
  const bool foreign = write_foreign(arguments, analysis);
  const bool any = foreign || page || !json_file.empty() || arguments.has("--markdown") ||
                   arguments.has("--junit") || arguments.has("--trace");
  if (arguments.has("--text") || !any) {
    const size_t width = terminal_width();
    std::fputs(explorer::summary_text(analysis, isatty(STDOUT_FILENO) != 0,
                                      width == 0 ? 80 : std::min<size_t>(width, 120))
                   .c_str(),
               stdout);
  } else if (analysis.comparison) {
    for (const auto& check : analysis.comparison->checks)
      say_to(stderr, "{} {}: {}\n", check.failed ? "FAILED" : "passed", check.expression, check.text);
  }
}

// The flags of trtexec among the words, for the runs of engines.
Words run_flags_of(const CommandWords& arguments) {
  Words flags;
  for (const auto listed : command_syntax("explore").listed_flags) {
    const std::string name(listed), value = arguments.value(name);
    if (arguments.has(name)) flags.push_back(value.empty() ? name : name + "=" + value);
  }
  if (!flags.empty()) {  // a value that is wrong should cost no run
    Words words = flags;
    words.emplace_back("--loadEngine=engine");
    parse_options(words);
  }
  return flags;
}

}  // namespace

int run_explore(const Words& words) {
  const CommandWords arguments(words, command_syntax("explore"));
  const Words run_flags = run_flags_of(arguments);
  explorer::AnalysisOptions settings;
  const std::string peaks = arguments.value("--peaks");
  settings.peaks = parse_peaks(peaks);
  if (arguments.has("--rules"))
    settings.rules = explorer::read_rules(arguments.value("--rules"), read_file(arguments.value("--rules")));
  if (arguments.has("--shape-profile"))
    settings.shape_profile = parse_int("--shape-profile", arguments.value("--shape-profile"));
  const auto names =
      arguments.has("--name") ? split_list(arguments.value("--name")) : std::vector<std::string>{};

  Analysis analysis;
  const Given given = files_of(arguments);
  if (arguments.has("-o")) explorer::require_report_page();
  check_outputs(arguments);
  if (arguments.has("--sweep") && arguments.has("--shapes"))
    throw_input_error("--sweep gives the shapes of every run; --shapes cannot be given, too");
  if (arguments.has("--fail-if")) explorer::check_fail_if(arguments.value("--fail-if"));
  const auto from_flags = files_of_flags(arguments, given.models);
  auto progress = std::make_unique<ProgressLine>();
  auto groups = gather(given.files, run_flags, parse_sweep(arguments.value("--sweep")), *progress);
  attach_flags(from_flags, groups);
  // Files may come from another machine; an engine that runs here has this one's roof.
  const bool runs_here = std::all_of(given.files.begin(), given.files.end(), is_engine_file);
  if (peaks == "measure" || (peaks.empty() && runs_here)) {
    progress->say("measuring what this machine can do at most");
    settings.peaks = measure_peaks(system_flags_of(arguments));
  }
  progress.reset();
  for (const auto& [files, engine, name] : groups) {
    const size_t index = analysis.engines.size();
    settings.name = index < names.size() ? names[index] : name;
    settings.engine_file = engine;
    analysis.engines.push_back(explorer::analyse_engine(files, settings));
  }
  make_names_unique(analysis.engines);
  if (analysis.engines.size() > 1) analysis.comparison = explorer::compare_engines(analysis.engines);
  if (arguments.has("--fail-if")) {
    if (!analysis.comparison) throw_input_error("--fail-if compares: give two engines, the baseline first");
    explorer::apply_fail_if(*analysis.comparison, analysis.engines, arguments.value("--fail-if"));
  }
  write_outputs(arguments, analysis);
  return analysis.comparison && analysis.comparison->failed ? 3 : 0;
}

}  // namespace lathe::cli
