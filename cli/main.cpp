// SPDX-License-Identifier: Apache-2.0
//
// One binary, two names: called trtexec it takes TensorRT's command line, called lathe it has commands of its
// own (`lathe trtexec ...` is the same as trtexec). The one place that turns exceptions into messages and
// exit codes.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <new>

#include "base/error.h"
#include "base/version.h"
#include "commands.h"
#include "failure.h"

namespace lathe::cli {
namespace {

struct Command {
  std::string_view name, usage, summary, examples;
  int (*run)(const Words&);
};

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = {
      {"zoo", "zoo [<name> -o <file>]", "list the built-in model recipes, or write one as an ONNX file",
       "  lathe zoo\n  lathe zoo resnet50 -o resnet50.onnx\n", run_zoo},
      {"inspect", "inspect <model.onnx | engine> [--json | --graph]", "what a model or an engine file holds",
       "  lathe inspect resnet50.onnx\n  lathe inspect resnet50.engine\n  lathe inspect resnet50.engine "
       "--json | jq .memory\n"
       "  lathe inspect resnet50.onnx --graph > model.json     every node and tensor, as JSON\n",
       run_inspect},
      {"diff", "diff <model.onnx> <engine> [--shapes=...] [--loadInputs=...] [--threshold=1e-3] [--json]",
       "compare every layer of an engine with the reference interpreter",
       "  lathe diff resnet50.onnx resnet50.engine\n  lathe diff bert.onnx bert.engine "
       "--shapes=input_ids:1x128\n",
       run_diff},
      {"retune", "retune <engine> -o <engine> [trtexec's build flags]",
       "time the tactics of an engine anew, for this machine",
       "  lathe retune resnet50.engine -o here.engine\n"
       "  lathe retune resnet50.engine -o here.engine --timingCacheFile=here.cache "
       "--builderOptimizationLevel=4\n",
       run_retune},
      {"explore", "explore <engine | layers.json ...> [-o report.html] [--json=F] [--text] [--fail-if=...]",
       "show where the time goes: page, terminal, JSON; compare engines",
       "  lathe explore resnet50.engine -o resnet50.html\n"
       "  lathe explore resnet50.engine --text --shapes=input:8x3x224x224 --duration=5\n"
       "  lathe explore layers.json profile.json times.json trtexec.log -o report.html\n"
       "  lathe explore a.engine b.engine --fail-if='latency>3% or fusion lost' --junit=d.xml "
       "--markdown=d.md\n"
       "  lathe explore resnet50.engine --onnx=resnet50.onnx -o resnet50.html\n"
       "  lathe explore resnet50.engine --peaks=FP32=140G,BF16=560G,memory=20G\n\n"
       "Files are of TensorRT 8 to 11 or of Lathe, told by their content; a layer file begins the next "
       "engine.\n"
       "--peaks: the roof as given, `measure` (what engines get: a few seconds) or `estimate` (what files "
       "get).\n"
       "-o, --json, --markdown, --junit and --trace (for ui.perfetto.dev) take a file, or - for standard "
       "output.\n"
       "--sweep='input:1x3x224x224;input:8x3x224x224' runs an engine with each of these shapes and "
       "compares.\n"
       "--fail-if: latency, layer sum, throughput, memory, weights, layers, any layer with > or < and % or "
       "ms;\n"
       "fusion lost, fusion new, precision changed, tactic changed, layer added, layer removed, reformat "
       "added;\n"
       "joined by or, and. The exit code is then 3.\n"
       "--trex=P writes P.graph.json and P.profile.json for NVIDIA's engine explorer, --perf-analysis=P "
       "layers_P.json "
       "and\n"
       "profile_P.json for trt-perf-analysis, whatever release the files are of.\n"
       "--rules=F adds findings of your own (docs/explorer.md).\n"
       "--onnx=F: the model beside the engine: which node became which layer, which vanished and why.\n"
       "--accuracy=F takes the result of `lathe diff --json`; --shape-profile=N chooses among [profile N].\n",
       run_explore},
      {"process",
       "process <model.onnx | engine> <folder> [-b] [-p] [-d] [--print_only] [--archive] [trtexec's flags]",
       "build, profile, metadata, pictures and report of a model, as files in a folder",
       "  lathe process resnet50.onnx out\n"
       "  lathe process resnet50.onnx out --bf16 --shapes=input:8x3x224x224\n"
       "  lathe process resnet50.onnx out --print_only       the trtexec commands, without running them\n"
       "  lathe process resnet50.onnx out -d                 only draw what the folder holds\n\n"
       "Steps: -b build, -p profile, -d draw; all three without any of them.\n"
       "Files: .engine, .build.log, .build.metadata.json, .model.json, .graph.json, .profile.json, "
       ".timing.json, "
       ".profile.log,\n"
       ".profile.metadata.json, .hardware.json (clocks, power, temperature while it was profiled), "
       ".graph.json.svg,\n"
       ".graph.json.dot, .analysis.json and .html; with --archive all of them in one .tea file, too.\n"
       "On NVIDIA GPUs: --compute-clk-freq=MHz|max, --memory-clk-freq=MHz|max, --power-limit=W hold for "
       "the profiling run\n"
       "and are put back; --dont-lock-clocks leaves the clocks alone; --dev=N is --device=N; --monitor "
       "prints the readings.\n",
       run_process},
  };
  return kCommands;
}

std::string general_help() {
  std::string text =
      "lathe builds fast inference engines from ONNX models, runs them and shows where the time goes.\n\n"
      "  lathe <command> [arguments]       lathe help <command> tells more\n\n";
  for (const auto& command : commands()) text += fmt::format("  {:<10}{}\n", command.name, command.summary);
  text +=
      "  trtexec   build, run and profile with trtexec's command line (also installed as `trtexec`)\n"
      "  help      this text, or a command's\n\n"
      "  lathe --version\n\n"
      "Start here:\n"
      "  lathe zoo resnet50 -o resnet50.onnx\n"
      "  lathe trtexec --onnx=resnet50.onnx --saveEngine=resnet50.engine\n"
      "  lathe explore resnet50.engine\n";
  return text;
}

const Command* find_command(const std::string& name) {
  for (const auto& command : commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

std::string command_help(const Command& command) {
  return fmt::format("lathe {}\n\n{}.\n\nExamples:\n{}", command.usage, command.summary, command.examples);
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
}

int run_lathe(const Words& words) {
  if (words.empty()) {
    print(general_help());
    return 0;
  }
  const std::string& name = words[0];
  const Words rest(words.begin() + 1, words.end());
  if (name == "trtexec") return run_trtexec("lathe trtexec", rest);
  if (name == "help" || name == "--help" || name == "-h") {
    const Command* command = rest.empty() ? nullptr : find_command(rest[0]);
    if (!rest.empty() && rest[0] == "trtexec") return run_trtexec("lathe trtexec", {"--help"});
    if (!rest.empty() && command == nullptr)
      throw_input_error(fmt::format("no command {}: see `lathe help`", rest[0]));
    print(command != nullptr ? command_help(*command) : general_help());
    return 0;
  }
  const Command* command = find_command(name);
  if (command == nullptr) throw_input_error(fmt::format("no command {}: see `lathe help`", name));
  for (const auto& word : rest) {
    if (word == "--help" || word == "-h") {
      print(command_help(*command));
      return 0;
    }
  }
  return command->run(rest);
}

int dispatch(const std::string& program, const Words& words) {
  const std::string base = std::filesystem::path(program).filename().string();
  if (words.size() == 1 && words[0] == "--version") {
    print(fmt::format("{} {}\n", base == "trtexec" ? "lathe trtexec" : "lathe", version()));
    return 0;
  }
  return base == "trtexec" ? run_trtexec(program, words) : run_lathe(words);
}

// Runs `body`; a message on stderr and 1 for anything thrown.
int guarded(const std::function<int()>& body) {
  const auto complain = [](const std::string& text) {
    std::fflush(stdout);
    std::fprintf(stderr, "lathe: %s\n", text.c_str());
    return 1;
  };
  try {
    return body();
  } catch (const Failure& failure) {
    for (const auto& line : failure.lines()) complain(line.text);
    return 1;
  } catch (const std::bad_alloc&) {
    return complain("out of memory");
  } catch (const std::exception& error) {
    return complain(error.what());
  }
}

}  // namespace
}  // namespace lathe::cli

int main(int argc, char** argv) {
  // A full disk, a size limit or a closed pipe is an error to report, not a reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const std::string program = argc > 0 ? argv[0] : "lathe";
  const lathe::cli::Words words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const int code = lathe::cli::guarded([&] { return lathe::cli::dispatch(program, words); });
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "lathe: standard output could not be written\n");
    return 1;
  }
  return code;
}
