// SPDX-License-Identifier: Apache-2.0
#include "arguments/command_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "arguments/flag.h"
#include "arguments/help_text.h"
#include "arguments/suggest.h"
#include "base/error.h"

namespace lathe::cli {
namespace {

using enum TrtexecFlags;

const std::vector<std::string_view> kDeviceFlags = {"--device", "--cpuThreads", "--cpuIsa"};
const std::vector<std::string_view> kPluginFlags = {"--staticPlugins", "--dynamicPlugins", "--trustEngine"};

CommandSyntax zoo() {
  return {.name = "zoo",
          .arguments = "[<name> [-o <file>]]",
          .summary = "list the built-in model recipes, or write one as an ONNX file",
          .options = {{"-o", "<file>", "the file to write (default: <name>.onnx)", {"--output"}},
                      {"--force", "", "overwrite a file that exists; without it, a terminal is asked"},
                      {"--json", "", "print JSON instead of text"}},
          .examples = "  lathe zoo\n  lathe zoo resnet50 -o resnet50.onnx\n"};
}

CommandSyntax inspect() {
  return {.name = "inspect",
          .arguments = "<model.onnx | engine>",
          .summary = "show what a model or an engine file holds",
          .options = {{"--json", "", "print JSON instead of tables"},
                      {"--graph", "", "every node and tensor of a model, as JSON"}},
          .flags = Listed,
          .listed_flags = kPluginFlags,
          .examples =
              "  lathe inspect resnet50.onnx\n  lathe inspect resnet50.engine\n"
              "  lathe inspect resnet50.engine --json | jq .memory\n"
              "  lathe inspect resnet50.onnx --graph > model.json\n"};
}

CommandSyntax diff() {
  std::vector<std::string_view> flags = {"--shapes", "--loadInputs", "--useProfile"};
  flags.insert(flags.end(), kDeviceFlags.begin(), kDeviceFlags.end());
  flags.insert(flags.end(), kPluginFlags.begin(), kPluginFlags.end());
  return {
      .name = "diff",
      .arguments = "<model.onnx> <engine>",
      .summary =
          "compare every layer of an engine with the reference interpreter, or its outputs with ONNX "
          "Runtime",
      .options =
          {{"--threshold", "<x>",
            "relative error that outputs may have (default: 1e-5, and 2e-2 when a layer is "
            "narrower than FP32)"},
           {"--bisect", "<file>",
            "write the first ONNX node whose error leaves the budget as a model of its own, with what it "
            "reads beside it"},
           {"--against", "onnxruntime|<file|folder>",
            "compare the outputs with ONNX Runtime's instead, on the CPU and without its optimisations: the "
            "library that the dynamic linker finds, this one, or the one in the folder of the Python "
            "package"},
           {"--json", "", "print JSON instead of tables"}},
      .flags = Listed,
      .listed_flags = flags,
      .notes = "The exit code is 1 when an output or a layer is out of tolerance.\n",
      .examples =
          "  lathe diff resnet50.onnx resnet50.engine\n"
          "  lathe diff bert.onnx bert.engine --shapes=input_ids:1x128\n"
          "  lathe diff resnet50.onnx resnet50.engine --against=onnxruntime\n"
          "  lathe diff resnet50.onnx resnet50.engine --threshold=1e-3 --bisect=one.onnx\n"};
}

CommandSyntax retune() {
  return {
      .name = "retune",
      .arguments = "<engine> -o <engine>",
      .summary = "time the tactics of an engine anew, for this machine",
      .options = {{"-o", "<file>", "the engine to write; it may be the one that was read"},
                  {"--json", "", "print the result as JSON: which engine was kept, and the times of both"}},
      .flags = All,
      .notes =
          "The old and the new engine are timed in turns; the old one stays when the new one is not "
          "faster.\n",
      .examples =
          "  lathe retune resnet50.engine -o here.engine\n"
          "  lathe retune resnet50.engine -o here.engine --timingCacheFile=here.cache "
          "--builderOptimizationLevel=4\n"};
}

CommandSyntax quantize() {
  std::vector<std::string_view> flags = {"--shapes", "--builderOptimizationLevel"};
  flags.insert(flags.end(), kDeviceFlags.begin(), kDeviceFlags.end());
  return {
      .name = "quantize",
      .arguments = "<model.onnx> (--calib <samples> | --weight-only <type>) -o <quantized.onnx>",
      .summary = "write a model with 8-bit weights and activations, or with weights of 4 or 8 bits alone",
      .options =
          {{"--calib", "<folder|file|random>",
            "samples of the inputs: a folder of pictures or .npy (one input) or .npz files (an array for "
            "each "
            "input), one "
            "sample a file; a calibration cache of TensorRT; or 'random', which is good for speed alone"},
           {"-o", "<file>", "the model to write", {"--output"}},
           {"--method", "max|percentile|entropy|mse", "how ranges follow from what was seen (default: max)"},
           {"--percentile", "<p>", "share of the elements that are covered, in percent (default: 99.99)"},
           {"--activations", "uint8|int8|fp8",
            "uint8 with zero points (default), int8 without, as TensorRT wants it, or fp8 (E4M3; weights, "
            "too)"},
           {"--smooth", "<strength>",
            "divide large channels before products, and multiply their weights (SmoothQuant): 0.5 to 0.8 for "
            "transformers (default: off)"},
           {"--correct-bias", "",
            "let biases take up what rounding the weights adds to the mean of a channel"},
           {"--budget", "<limit>",
            "leave products float until the model fits 'top1<0.5%', 'l2<1e-2' or 'cosine>0.999' on held-back "
            "samples, "
            "and keep the fastest that does"},
           {"--save-cache", "<file>", "write the scales of int8 as a calibration cache of TensorRT, too"},
           {"--weight-only", "int4|int8",
            "weights of products alone, a scale for each block; with --calib they take up each other's "
            "errors (GPTQ)"},
           {"--block", "<n>", "with --weight-only: weights that share a scale, a power of two (default: 32)"},
           {"--op-types", "<list>",
            "operators that read quantised tensors (default: Add, AveragePool, Concat, Conv, Gemm, "
            "GlobalAveragePool, MatMul, MaxPool; of --weight-only: Gemm, MatMul)"},
           {"--exclude", "<patterns>", "nodes that stay float, by name; * stands for any characters"},
           {"--preprocess", "<recipe|steps>",
            "of pictures: imagenet (default), unit, signed, pixels, or steps: resize=<pixels>|stretch, "
            "scale=<x>, "
            "mean=<r/g/b>, std=<r/g/b>, order=rgb|bgr"},
           {"--samples", "<n>", "samples to take (default: all; random: 8)"},
           {"--force", "", "overwrite a file that exists"},
           {"--json", "", "print the result as JSON"}},
      .flags = Listed,
      .listed_flags = flags,
      .notes =
          "With samples, weights become int8 (or fp8) with a scale for each output channel, and a float "
          "model of "
          "opset "
          "13 or later is needed. With --weight-only, products become com.microsoft's MatMulNBits; no "
          "samples are needed, "
          "and int4\nloses less with some.\n",
      .examples =
          "  lathe quantize resnet50.onnx --calib samples/ -o resnet50.int8.onnx\n"
          "  lathe quantize resnet50.onnx --calib samples/ --method=entropy -o resnet50.int8.onnx\n"
          "  lathe quantize resnet50.onnx --calib samples/ --activations=fp8 -o resnet50.fp8.onnx\n"
          "  lathe quantize decoder.onnx --weight-only int4 -o decoder.int4.onnx\n"
          "  lathe quantize bert.onnx --calib random --shapes=input_ids:1x128 -o bert.int8.onnx\n"};
}

CommandSyntax autocast() {
  return {.name = "autocast",
          .arguments = "<model.onnx> --to <type> -o <mixed.onnx>",
          .summary = "write a model in mixed precision: float16 or bfloat16 where values allow it",
          .options =
              {{"--to", "fp16|bf16", "the narrow type"},
               {"-o", "<file>", "the model to write", {"--output"}},
               {"--calib", "<folder|file|random>", "samples of the inputs, as of quantize (default: random)"},
               {"--preprocess", "<recipe|steps>",
                "of pictures: imagenet (default), unit, signed, pixels, or steps: resize=<pixels>|stretch, "
                "scale=<x>, "
                "mean=<r/g/b>, std=<r/g/b>, order=rgb|bgr"},
               {"--samples", "<n>", "samples to take (default: all; random: 8)"},
               {"--exclude", "<patterns>", "nodes that stay float32, by name; * stands for any characters"},
               {"--exclude-types", "<list>", "operators that stay float32"},
               {"--max-magnitude", "<x>",
                "nodes at larger values stay float32 (default: a quarter of what the type holds)"},
               {"--max-reduction", "<n>", "nodes that sum more elements stay float32 (default: any number)"},
               {"--convert-io", "", "inputs and outputs get the narrow type, too"},
               {"--force", "", "overwrite a file that exists"},
               {"--json", "", "print the result as JSON, with the reason of every node"}},
          .flags = Listed,
          .listed_flags = {"--shapes", "--cpuThreads"},
          .notes =
              "Every sample runs in the reference interpreter, in float32. A node stays float32 when its "
              "values leave "
              "the range\nof the type, or when rounding what it reads changes its result far more than "
              "rounding it would. "
              "The written model\nis compared with the old one on the last sample.\n",
          .examples =
              "  lathe autocast resnet50.onnx --to fp16 --calib samples/ -o resnet50.fp16.onnx\n"
              "  lathe autocast bert.onnx --to bf16 --shapes=input_ids:1x128,attention_mask:1x128 -o "
              "bert.bf16.onnx\n"
              "  lathe autocast model.onnx --to fp16 --exclude='*/norm/*' --exclude-types=Softmax -o "
              "model.fp16.onnx\n"};
}

CommandSyntax why() {
  return {.name = "why",
          .arguments = "<model.onnx> | [<model.onnx>] <engine>",
          .summary = "which layers stayed in a higher precision or on a slow path, what each costs, and why",
          .options = {{"--json", "", "print JSON instead of text"}},
          .flags = All,
          .notes =
              "Layers are timed with random inputs. Reasons are what the tuner recorded when it chose. A "
              "model alone is "
              "built\nfirst, with trtexec's options, or with --best where they name no type.\n",
          .examples =
              "  lathe why resnet50.int8.engine\n"
              "  lathe why resnet50.onnx resnet50.engine --json | jq '.found[0]'\n"
              "  lathe why resnet50.int8.onnx --builderOptimizationLevel=2\n"};
}

CommandSyntax explore() {
  std::vector<std::string_view> flags = {"--shapes",       "--loadInputs",      "--iterations",
                                         "--duration",     "--warmUp",          "--useProfile",
                                         "--useCudaGraph", "--noDataTransfers", "--useSpinWait"};
  flags.insert(flags.end(), kDeviceFlags.begin(), kDeviceFlags.end());
  return {.name = "explore",
          .arguments = "<engine | layers.json ...>",
          .summary = "show where the time goes: page, terminal, JSON; compare engines",
          .options = {{"-o", "<file>", "the report, as one HTML file"},
                      {"--json", "<file>", "the analysis as JSON"},
                      {"--text", "", "the analysis in the terminal (the default without another output)"},
                      {"--markdown", "<file>", "a summary for a pull request"},
                      {"--junit", "<file>", "the checks of --fail-if, for CI"},
                      {"--trace", "<file>", "the layers over time, for ui.perfetto.dev"},
                      {"--fail-if", "<conditions>",
                       "exit with 3 when a condition holds between the first engine and another"},
                      {"--peaks", "measure|estimate|<list>",
                       "the roof: measured (the default for engines: a few seconds), estimated (for files), "
                       "or given as in "
                       "--peaks=FP32=140G,BF16=560G,memory=20G"},
                      {"--sweep", "<shapes;shapes>", "run an engine with each of these shapes, and compare"},
                      {"--onnx", "<file>",
                       "the model beside the engine: which node became which layer, which vanished and why"},
                      {"--accuracy", "<file>", "the result of `lathe diff --json`"},
                      {"--rules", "<file>", "findings of your own (docs/explorer.md)"},
                      {"--name", "<names>", "names of the engines, in their order"},
                      {"--shape-profile", "<n>", "the optimization profile to show, of several"},
                      {"--layers", "<file>", "a layer file, told by this flag instead of its content"},
                      {"--profile", "<file>", "the same for a layer profile"},
                      {"--times", "<file>", "the same for the times of queries"},
                      {"--log", "<file>", "the same for a log of trtexec"},
                      {"--trex", "<prefix>",
                       "write <prefix>.graph.json and <prefix>.profile.json for NVIDIA's engine explorer"},
                      {"--perf-analysis", "<prefix>",
                       "write layers_<prefix>.json and profile_<prefix>.json for trt-perf-analysis"}},
          .flags = Listed,
          .listed_flags = flags,
          .notes =
              "Files are of TensorRT 8 to 11 or of Lathe, told by their content; a layer file begins the "
              "next engine.\n"
              "Outputs take a file, or - for standard output.\n"
              "Conditions of --fail-if: latency, layer sum, throughput, memory, weights, layers, any layer "
              "with > or < and % "
              "or ms;\n"
              "fusion lost, fusion new, precision changed, tactic changed, layer added, layer removed, "
              "reformat added;\n"
              "joined by or, and.\n",
          .examples =
              "  lathe explore resnet50.engine -o resnet50.html\n"
              "  lathe explore resnet50.engine --text --shapes=input:8x3x224x224 --duration=5\n"
              "  lathe explore layers.json profile.json times.json trtexec.log -o report.html\n"
              "  lathe explore a.engine b.engine --fail-if='latency>3% or fusion lost' --junit=d.xml "
              "--markdown=d.md\n"
              "  lathe explore resnet50.engine --sweep='input:1x3x224x224;input:8x3x224x224' -o sweep.html\n"
              "  lathe explore resnet50.engine --onnx=resnet50.onnx -o resnet50.html\n"};
}

CommandSyntax process() {
  return {
      .name = "process",
      .arguments = "<model.onnx | engine> <folder>",
      .summary = "build, profile, metadata, pictures and report of a model, as files in a folder",
      .options = {{"-b", "", "build", {"--build_engine", "--build-engine"}},
                  {"-p", "", "profile", {"--profile_engine", "--profile-engine"}},
                  {"-d",
                   "",
                   "draw what the folder holds; all three steps without any of them",
                   {"--draw_engine", "--draw-engine"}},
                  {"--print_only", "", "print the trtexec commands, run nothing", {"--print-only"}},
                  {"--archive", "", "all files in one .tea file, too"},
                  {"--json", "", "print commands, warnings and files as JSON"},
                  {"--compute-clk-freq",
                   "<MHz|max>",
                   "clock of the GPU during the profiling run",
                   {"--compute_clk_freq"}},
                  {"--memory-clk-freq", "<MHz|max>", "clock of its memory", {"--memory_clk_freq"}},
                  {"--power-limit", "<W>", "its power limit", {"--power_limit"}},
                  {"--dont-lock-clocks", "", "leave the clocks alone", {"--dont_lock_clocks"}},
                  {"--dev", "<n>", "the same as --device"},
                  {"--monitor", "", "print clocks, power and temperature"}},
      .flags = All,
      .notes =
          "Files: .engine, .build.log, .build.metadata.json, .model.json, .graph.json, .profile.json, "
          ".timing.json,\n"
          ".profile.log, .profile.metadata.json, .hardware.json (clocks, power, temperature while it was "
          "profiled),\n"
          ".graph.json.svg, .graph.json.dot, .analysis.json and .html. Clocks and power are put back after "
          "the run.\n",
      .examples =
          "  lathe process resnet50.onnx out\n"
          "  lathe process resnet50.onnx out --bf16 --shapes=input:8x3x224x224\n"
          "  lathe process resnet50.onnx out --print_only       the trtexec commands, without running them\n"
          "  lathe process resnet50.onnx out -d                 only draw what the folder holds\n"};
}

CommandSyntax completion() {
  return {.name = "completion",
          .arguments = "bash | zsh | fish",
          .summary = "print the completion of lathe and trtexec for a shell",
          .examples =
              "  source <(lathe completion bash)                                  # in ~/.bashrc\n"
              "  lathe completion zsh > ~/.zfunc/_lathe                           # a folder of $fpath\n"
              "  lathe completion fish > ~/.config/fish/completions/lathe.fish\n"};
}

CommandSyntax man() {
  return {.name = "man",
          .arguments = "lathe | trtexec",
          .summary = "print a page of the manual, for man",
          .examples = "  lathe man trtexec | man -l -\n"};
}

CommandSyntax edit() {
  return {.name = "edit",
          .arguments = "<model.onnx> -o <file>",
          .summary = "write a part of a model, or the model with other names and shapes",
          .options = {{"-o", "<file>", "the model to write", {"--output"}},
                      {"--inputs", "<names>", "tensors that become inputs: what computes them is left out"},
                      {"--outputs", "<names>", "tensors that are the outputs, instead of the model's own"},
                      {"--shapes", "<spec>", "extents of dynamic inputs, as in --shapes=input:1x3x224x224"},
                      {"--rename", "<from:to,...>", "other names of inputs, outputs, tensors or nodes"},
                      {"--fold", "", "compute what depends on constants alone"},
                      {"--force", "", "overwrite a file that exists"},
                      {"--json", "", "print JSON instead of text"}},
          .notes =
              "Names are the model's: lathe inspect model.onnx --graph. The model is written in a current "
              "opset.\n",
          .examples =
              "  lathe edit resnet50.onnx --outputs=features -o backbone.onnx\n"
              "  lathe edit model.onnx --inputs=hidden --outputs=logits -o head.onnx\n"
              "  lathe edit model.onnx --shapes=input:1x3x224x224 --fold -o static.onnx\n"};
}

CommandSyntax trtexec() {
  return {.name = "trtexec",
          .arguments = "[flags]",
          .summary = "build, run and profile with trtexec's command line (also installed as `trtexec`)",
          .flags = All,
          .examples =
              "  lathe trtexec --onnx=resnet50.onnx --saveEngine=resnet50.engine\n  lathe trtexec --help\n"};
}

CommandSyntax help() {
  return {.name = "help",
          .arguments = "[<command>]",
          .summary = "this text, or a command's",
          .examples = "  lathe help\n  lathe help explore\n"};
}

}  // namespace

const std::vector<CommandSyntax>& command_table() {
  static const std::vector<CommandSyntax> kTable = {zoo(),      inspect(),    diff(), retune(),  quantize(),
                                                    autocast(), why(),        edit(), explore(), process(),
                                                    trtexec(),  completion(), man(),  help()};
  return kTable;
}

const CommandSyntax* find_command(std::string_view name) {
  const auto& table = command_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const CommandSyntax& command) { return command.name == name; });
  return found == table.end() ? nullptr : &*found;
}

const CommandSyntax& command_syntax(std::string_view name) {
  const CommandSyntax* command = find_command(name);
  check(command != nullptr, "a command without a row in the table");
  return *command;
}

std::vector<CommandOption> all_options(const CommandSyntax& command) {
  std::vector<CommandOption> options = command.options;
  const auto taken = [&](const Flag& flag) {
    const auto& listed = command.listed_flags;
    const bool wanted = command.flags == All
                            ? !flag.help.empty()
                            : std::find(listed.begin(), listed.end(), flag.name) != listed.end();
    return wanted && std::none_of(command.options.begin(), command.options.end(),
                                  [&](const CommandOption& own) { return own.name == flag.name; });
  };
  if (command.flags == None) return options;
  for (const auto& flag : all_flags()) {
    if (taken(flag)) options.push_back({flag.name, flag.value, flag.help});
  }
  return options;
}

std::string with_value(const CommandOption& option) {
  if (option.value.empty()) return std::string(option.name);
  return fmt::format("{}{}{}", option.name, option.name.starts_with("--") ? "=" : " ", option.value);
}

std::string general_help() {
  std::string text =
      "lathe builds fast inference engines from ONNX models, runs them and shows where the time goes.\n\n"
      "  lathe <command> [arguments]       lathe help <command> tells more\n\n";
  for (const auto& command : command_table())
    text += fmt::format("  {:<12}{}\n", command.name, command.summary);
  text +=
      "\n  lathe --version\n\n"
      "Start here:\n"
      "  lathe zoo resnet50 -o resnet50.onnx\n"
      "  lathe trtexec --onnx=resnet50.onnx --saveEngine=resnet50.engine\n"
      "  lathe explore resnet50.engine\n";
  return text;
}

std::string command_help(const CommandSyntax& command) {
  const bool has_options = !command.options.empty() || command.flags == Listed;
  std::string text = fmt::format("lathe {} {}{}\n\n{}.\n", command.name, command.arguments,
                                 has_options ? " [options]" : "", command.summary);
  if (!command.options.empty()) text += "\nOptions:\n";
  for (const auto& option : command.options) text += flag_line(with_value(option), option.help);
  if (command.flags == Listed) {
    text += "\nOf trtexec's options:\n";
    const auto options = all_options(command);
    for (size_t i = command.options.size(); i < options.size(); ++i)
      text += flag_line(with_value(options[i]), options[i].help);
  } else if (command.flags == All) {
    text += "\nAnd trtexec's options: trtexec --help\n";
  }
  if (!command.notes.empty()) text += fmt::format("\n{}", command.notes);
  return text + fmt::format("\nExamples:\n{}", command.examples);
}

void throw_no_command(std::string_view name) {
  constexpr std::string_view kOfThePythonPackage[] = {"run", "bench", "serve"};
  if (std::ranges::find(kOfThePythonPackage, name) != std::end(kOfThePythonPackage))
    throw_input_error(fmt::format(
        "no command {0}: the Python package has it, `python -m lathe {0}` (`make wheel` makes it)", name));
  std::vector<std::string_view> names;
  for (const auto& command : command_table()) names.push_back(command.name);
  const std::string hint = suggestion(name, names);
  throw_input_error(fmt::format("no command {}: {}", name, hint.empty() ? "see `lathe help`" : hint));
}

}  // namespace lathe::cli
