// SPDX-License-Identifier: Apache-2.0
//
// `lathe process`: from a model to everything that is known of its engine, as files in one folder: build,
// profile, metadata, clocks and power, pictures of the graph, analysis, report page. Each step is a trtexec
// command that --print_only shows, and can be run alone; later steps take what earlier ones left in the
// folder.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "archive.h"
#include "arguments/arguments.h"
#include "arguments/options.h"
#include "arguments/words.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "commands.h"
#include "explorer/core/analyse.h"
#include "explorer/core/analysis_json.h"
#include "explorer/core/graph_picture.h"
#include "explorer/core/text.h"
#include "explorer/web/report_page.h"
#include "profile_engine.h"
#include "report/model_graph.h"
#include "run_state.h"
#include "say.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

struct Request {
  std::string input, folder;
  Words extra;  // for both runs
  bool build = false, profile = false, draw = false, print_only = false, archive = false, json = false;
  RunState state;

  // What is told goes to standard output; with --json to standard error, and standard output gets `result`.
  std::FILE* out() const { return json ? stderr : stdout; }
  Json result = {{"commands", Json::array()}, {"warnings", Json::array()}, {"files", Json::array()}};
};

// trex's flags for the GPU.
RunState state_of(const CommandWords& arguments) {
  RunState state;
  state.print = arguments.has("--monitor");
  state.keep_clocks = arguments.has("--dont-lock-clocks");
  state.settings.memory_clock = arguments.value("--memory-clk-freq");
  state.settings.compute_clock = arguments.value("--compute-clk-freq");
  if (arguments.has("--power-limit"))
    state.settings.power_limit = parse_float("--power-limit", arguments.value("--power-limit"));
  state.device = arguments.value("--dev");
  return state;
}

Request parse_request(const Words& words) {
  const CommandWords arguments(words, command_syntax("process"));
  const auto& positional = arguments.positional();
  if (positional.size() < 2)
    throw_input_error(
        "process takes a model (or an engine) and a folder: lathe process resnet50.onnx out --fp16");
  Request request{.input = positional[0],
                  .folder = positional[1],
                  .extra = arguments.passed(),
                  .build = arguments.has("-b"),
                  .profile = arguments.has("-p"),
                  .draw = arguments.has("-d"),
                  .print_only = arguments.has("--print_only"),
                  .archive = arguments.has("--archive"),
                  .state = state_of(arguments)};
  // trex's habit: trtexec's arguments without dashes after the folder.
  for (size_t i = 2; i < positional.size(); ++i) request.extra.push_back("--" + positional[i]);
  if (!request.build && !request.profile && !request.draw)
    request.build = request.profile = request.draw = true;
  request.json = arguments.has("--json");
  if (request.json) request.state.print = false;  // readings are in the folder's .hardware.json
  const auto device = std::find_if(request.extra.begin(), request.extra.end(),
                                   [](const std::string& word) { return word.starts_with("--device="); });
  // --dev is trex's word for --device.
  if (device != request.extra.end()) {
    request.state.device = device->substr(9);
  } else if (!request.state.device.empty()) {
    request.extra.push_back("--device=" + request.state.device);
  }
  Words all = request.extra;  // a mistake among trtexec's flags should leave no folder
  all.push_back("--onnx=" + request.input);
  parse_options(all);
  return request;
}

// Our flags and the user's, each switch once.
Words with_flags(Words ours, const Words& theirs) {
  for (const auto& word : theirs) {
    if (std::find(ours.begin(), ours.end(), word) == ours.end()) ours.push_back(word);
  }
  return ours;
}

// Flags that only a build or only a run understands stay with it.
Words flags_for(const Words& extra, bool build) {
  Words flags;
  for (const auto& word : extra) {
    const std::string name = word.substr(0, word.find('='));
    const bool run_only = name == "--shapes" || name == "--loadInputs" || name == "--iterations" ||
                          name == "--duration" || name == "--warmUp" || name == "--useProfile";
    if (!build || !run_only || name == "--shapes") flags.push_back(word);
  }
  return flags;
}

void tell_command(Request& request, const Words& words) {
  std::string line = "trtexec";
  for (const auto& word : words)
    line += " " + (word.find_first_of(" \t'\"$&|;<>()*?") == std::string::npos ? word : "'" + word + "'");
  say_to(request.out(), "{}\n", line);
  Json command = Json::array({"trtexec"});
  for (const auto& word : words) command.push_back(word);
  request.result["commands"].push_back(std::move(command));
}

// What a run warned of stands in its log, where nobody looks who sees no error: said here, too, once each.
// That a timing cache is new is no news, and flags that the user did not give are not the user's affair.
void tell_warnings(Request& request, const std::string& log) {
  std::vector<std::string> told;
  constexpr std::string_view kMark = "[W] ", kOurs = "[TRT] ";
  const std::string text = read_file(log);
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string_view line = std::string_view(text).substr(start, end - start);
    start = end + 1;
    const size_t mark = line.find(kMark);
    if (mark == std::string_view::npos || line.find("timing cache") != std::string_view::npos) continue;
    line.remove_prefix(mark + kMark.size());
    if (line.starts_with(kOurs)) line.remove_prefix(kOurs.size());
    const std::string first(line.substr(0, line.find_first_of(" =")));
    const bool ours = first.starts_with("--") &&
                      std::none_of(request.extra.begin(), request.extra.end(), [&](const std::string& word) {
                        return word.substr(0, word.find('=')) == first;
                      });
    if (ours || std::find(told.begin(), told.end(), line) != told.end()) continue;
    told.emplace_back(line);
    say_to(request.out(), "  warning: {}\n", line);
    request.result["warnings"].push_back(std::string(line));
  }
}

void run_step(Request& request, const Words& words, const std::string& log, const char* what) {
  tell_command(request, words);
  if (request.print_only) return;
  std::fflush(request.out());
  try {
    run_trtexec_logged(words, log);
  } catch (Error& error) {
    error.add_context(fmt::format("{} failed; its log is {}", what, log));
    throw;
  }
  tell_warnings(request, log);
}

void write_json(const std::string& file, const Json& json) {
  write_file_atomically(file, dump_json(json) + "\n");
}

// What the folder holds of an engine, for the explorer.
std::vector<explorer::InputFile> load_files(const std::string& base) {
  std::vector<explorer::InputFile> files;
  for (const char* part : {".graph.json", ".profile.json", ".timing.json", ".build.log", ".profile.log",
                           ".hardware.json", ".model.json"}) {
    if (fs::exists(base + part)) files.push_back(explorer::load_file(base + part));
  }
  return files;
}

void build(Request& request, const std::string& base, const std::string& engine) {
  Words command = {"--verbose",
                   "--onnx=" + request.input,
                   "--saveEngine=" + engine,
                   "--timingCacheFile=" + (fs::path(request.folder) / "timing.cache").string(),
                   "--profilingVerbosity=detailed",
                   "--skipInference"};
  command = with_flags(std::move(command), flags_for(request.extra, true));
  run_step(request, command, base + ".build.log", "the build");
  if (request.print_only) return;
  write_json(base + ".build.metadata.json",
             explorer::build_metadata(explorer::read_log(explorer::load_file(base + ".build.log"))));
  write_json(base + ".model.json", model_graph_json(request.input));
}

void profile(Request& request, const std::string& base, const std::string& engine) {
  Words command = {"--loadEngine=" + engine,
                   "--noDataTransfers",
                   "--useCudaGraph",
                   "--useSpinWait",
                   "--separateProfileRun",
                   "--profilingVerbosity=detailed",
                   "--exportTimes=" + base + ".timing.json",
                   "--exportProfile=" + base + ".profile.json",
                   "--exportLayerInfo=" + base + ".graph.json"};
  command = with_flags(std::move(command), flags_for(request.extra, false));
  if (request.print_only) return run_step(request, command, "", "profiling");
  const std::string log = base + ".profile.log";
  const Json hardware = watch_run(request.state, [&] {
    run_step(request, command, log, "profiling");
    return ran_on_gpu(log);
  });
  say_to(request.out(), "{}\n", hardware["text"].get<std::string>());
  request.result["hardware"] = hardware["text"];
  write_json(base + ".hardware.json", hardware);
  write_json(base + ".profile.metadata.json",
             explorer::profile_metadata(explorer::read_log(explorer::load_file(base + ".profile.log"))));
}

void draw(const Request& request, const std::string& base) {
  const auto files = load_files(base);
  if (!fs::exists(base + ".graph.json"))
    throw_input_error(fmt::format("{} has no {}.graph.json to draw: profile first (lathe process -p)",
                                  request.folder, fs::path(base).filename().string()));
  explorer::Analysis analysis;
  analysis.engines.push_back(explorer::analyse_engine(files, {}));
  write_file_atomically(base + ".graph.json.dot", explorer::graph_dot(analysis.engines[0]));
  write_file_atomically(base + ".graph.json.svg", explorer::graph_svg(analysis.engines[0]));
  const Json json = explorer::analysis_json(analysis);
  write_json(base + ".analysis.json", json);
  if (explorer::report_template().empty()) {
    say_to(stderr,
           "lathe: no report page: this build carries none (tools/setup-web.sh page); everything else "
           "was written\n");
  } else {
    write_file_atomically(base + ".html", explorer::report_page(dump_json(json, -1)));
  }
}

// Everything of this engine in one file, the engine, too.
void archive(const Request& request, const std::string& base, const std::string& engine) {
  std::vector<std::string> files;
  const std::string name = fs::path(base).filename().string();
  for (const auto& entry : fs::directory_iterator(request.folder)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with(name) && !file.ends_with(".tea") && entry.path() != fs::path(engine))
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (fs::exists(engine)) files.push_back(engine);
  write_archive(base + ".tea", files);
}

std::vector<std::string> written_files(const std::string& folder, const std::string& base) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(fs::path(base).filename().string()))
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int run_process(const Words& words) {
  Request request = parse_request(words);
  const bool is_model = fs::path(request.input).extension() == ".onnx";
  const std::string base =
      (fs::path(request.folder) / fs::path(request.input).filename()).string() + (is_model ? ".engine" : "");
  const std::string engine = is_model ? base : request.input;
  if (!request.print_only) {
    MappedFile::open(request.input);  // a name that is wrong should leave no folder
    create_folders(request.folder);
  }
  if (request.build && is_model) build(request, base, engine);
  if (request.profile) profile(request, base, engine);
  if (!request.print_only) {
    if (request.draw) draw(request, base);
    if (request.archive) archive(request, base, engine);
    const std::vector<std::string> written = written_files(request.folder, base);
    request.result["files"] = written;
    if (request.draw || request.archive)
      for (const auto& file : written) say_to(request.out(), "  {}\n", file);
  }
  if (request.json) fmt::print("{}\n", dump_json(request.result));
  return 0;
}

}  // namespace lathe::cli
