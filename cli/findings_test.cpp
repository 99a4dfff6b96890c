// SPDX-License-Identifier: Apache-2.0
//
// Every command that a finding suggests is one that this program understands: each is split as a shell would
// and given to the parser of its command line. The engines here are made so that every rule with a command
// speaks.
#include "explorer/core/findings.h"

#include <gtest/gtest.h>

#include <set>

#include "arguments/error_of.h"
#include "arguments/options.h"
#include "base/json.h"
#include "commands.h"
#include "explorer/core/rule_parts.h"
#include "measure_peaks.h"

namespace lathe::cli {
namespace {

using explorer::EngineData;
using explorer::Layer;

// Words of a command, up to a pipe; single quotes and backslashes, as findings write them.
Words split_command(const std::string& command) {
  Words words;
  std::string word;
  bool quoted = false, escaped = false, any = false;
  for (const char c : command + " ") {
    if (escaped || (c == '\\' && !quoted)) {
      if (escaped) word += c;
      escaped = !escaped;
    } else if (c == '\'') {
      quoted = !quoted;
      any = true;
    } else if (c == ' ' && !quoted) {
      if (any && word == "|") return words;
      if (any) words.push_back(std::exchange(word, ""));
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  return words;
}

Layer make_layer(EngineData& engine, const std::string& type, const std::string& kind, double ms) {
  Layer layer;
  layer.index = static_cast<int>(engine.layers.size());
  layer.name = type + std::to_string(layer.index);
  layer.type = type;
  layer.kind = kind;
  layer.precision = layer.input_precision = layer.output_precision = "FP32";
  layer.time.emplace();
  layer.time->average_ms = ms;
  layer.time->median_ms = ms / 2;
  return layer;
}

// A device on which everything goes wrong at once.
EngineData troubled_engine(const std::string& device, const std::string& dialect,
                           const std::string& settings) {
  EngineData engine;
  engine.device.kind = device;
  engine.sources.push_back({"layers", "layers.json", dialect});
  engine.build_settings = settings;
  engine.engine_file = "a folder/it's.engine";
  engine.bindings.push_back(
      {"input_ids", "input", 0, {1, 128}, "FP32", "", {}, {{{1, 1}, {1, 128}, {4, 512}}}});
  engine.tensors.resize(2);
  engine.peaks.source = "measured";
  engine.peaks.flops_per_s = {{"FP32", 1e12}, {"BF16", 2e12}};
  engine.peaks.launch_ms = 0.005;
  const auto add = [&](Layer layer) { engine.layers.push_back(std::move(layer)); };
  Layer product = make_layer(engine, "MatrixMultiply", "compute", 4);
  product.roofline = {"compute", "FP32", 0.5, 25.0, {}, {}, 3.4};
  product.attributes = Json{{"TacticTimeMs", 0.5}};
  product.error.emplace();
  product.error->local = 0.5;
  product.error->limit = 1e-3;
  add(product);
  add(make_layer(engine, "PointWise", "compute", 2));
  add(make_layer(engine, "Shape", "shape", 1));
  Layer reformat = make_layer(engine, "Reformat", "reformat", 1);
  reformat.inputs.push_back({"input_ids", 0, {1, 128}, "FP32", "linear", 512, false, "", {}});
  reformat.outputs.push_back({"inner", 1, {1, 128}, "FP16", "linear", 256, false, "", {}});
  add(reformat);
  for (int i = 0; i < 500; ++i) add(make_layer(engine, "Softmax", "compute", 0.004));
  engine.statistics.layer_sum_ms = 10;
  engine.statistics.layer_median_sum_ms = 5;
  engine.statistics.engine_latency_ms = 20;
  engine.statistics.gap_ms = 10;
  engine.statistics.gap_parts.push_back({"idle_or_launch", 10, "waiting"});
  engine.statistics.compute.emplace();
  engine.statistics.compute->variation_percent = 50;
  return engine;
}

std::string parse_suggestion(const std::string& command) {
  Words words = split_command(command);
  if (words.size() < 2) return "no command: " + command;
  const std::string program = words[0] == "lathe" ? words[1] : words[0];
  words.erase(words.begin(), words.begin() + (words[0] == "lathe" ? 2 : 1));
  if (program == "trtexec") {
    return error_of([&] {
      const Options options = parse_options(words);
      if (options.model.onnx.empty() && options.build.load_engine.empty()) throw_input_error("no model");
    });
  }
  // Those read their files after their words, and the file is not there.
  const std::string error = error_of([&] {
    if (program == "diff") run_diff(words);
    if (program == "retune") run_retune(words);
  });
  return error.find("option") == std::string::npos && error.find(words[0]) != std::string::npos ? "no error"
                                                                                                : error;
}

TEST(Findings, EveryCommandIsUnderstood) {
  std::set<std::string> ids;
  size_t commands = 0;
  for (const char* device : {"cpu", "gpu"}) {
    for (const char* dialect : {"lathe", "tensorrt-10"}) {
      for (const char* settings : {"level 3, fp32", "level 5, fp32+bf16", ""}) {
        const EngineData engine = troubled_engine(device, dialect, settings);
        for (const auto& rule : explorer::finding_rules()) {
          for (const auto& finding : rule(engine)) {
            if (finding.command.empty()) continue;
            EXPECT_EQ(parse_suggestion(finding.command), "no error") << finding.id << ": " << finding.command;
            EXPECT_EQ(finding.command.find("MODEL"), std::string::npos) << finding.command;
            ids.insert(finding.id);
            ++commands;
          }
        }
      }
    }
  }
  EXPECT_EQ(ids,
            (std::set<std::string>{"below-roof", "float32-matrix-work", "inaccurate-layer", "noisy-timing",
                                   "pointwise-layers", "io-formats", "reformats", "shape-work",
                                   "slower-than-tuned", "small-layers", "sum-differs-from-latency"}));
  EXPECT_GT(commands, 60u);
}

TEST(Findings, CommandsBuildTheSameEngine) {
  const EngineData engine = troubled_engine("cpu", "lathe", "level 3, fp32+bf16");
  EXPECT_EQ(explorer::build_command(engine, "--builderOptimizationLevel=5"),
            "trtexec --onnx=model.onnx --minShapes=input_ids:1x1 --optShapes=input_ids:1x128 "
            "--maxShapes=input_ids:4x512 --bf16 --builderOptimizationLevel=5 --saveEngine=new.engine");
  const Options options = parse_options([&] {
    Words words = split_command(explorer::run_command(engine, "--useSpinWait"));
    words.erase(words.begin());
    return words;
  }());
  EXPECT_EQ(options.build.load_engine, "a folder/it's.engine");
}

TEST(Findings, LevelFiveIsNotSuggestedTwice) {
  const EngineData engine = troubled_engine("cpu", "lathe", "level 5, fp32");
  for (const auto& finding : explorer::find_layers_below_roof(engine)) EXPECT_EQ(finding.command, "");
  EXPECT_FALSE(explorer::find_layers_below_roof(engine).empty());
}

// An engine of ours takes and gives the model's types only; a type that the builder was allowed to use is no
// news to it.
TEST(Findings, SuggestOnlyWhatCanHelp) {
  const auto command_of = [](const std::vector<explorer::Finding>& findings) {
    return findings.empty() ? "" : findings.front().command;
  };
  const EngineData ours = troubled_engine("cpu", "lathe", "level 3, fp32");
  EXPECT_EQ(command_of(explorer::find_reformats(ours)).find("IOFormats"), std::string::npos);
  const EngineData theirs = troubled_engine("gpu", "tensorrt-10", "");
  EXPECT_NE(command_of(explorer::find_reformats(theirs)).find("--inputIOFormats=fp16:chw"),
            std::string::npos);
  EXPECT_NE(command_of(explorer::find_slow_types(ours)).find("--bf16"), std::string::npos);
  const auto refused = explorer::find_slow_types(troubled_engine("cpu", "lathe", "level 3, fp32+bf16"));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_FALSE(refused[0].gain_ms);
  EXPECT_NE(refused[0].title.find("although BF16 was allowed"), std::string::npos);
}

TEST(Peaks, AreStableWhereThreeRoundsAgree) {
  EXPECT_FALSE(agree({}, 3, 1.05));
  EXPECT_FALSE(agree({1.0, 1.02}, 3, 1.05));
  EXPECT_TRUE(agree({1.9, 1.0, 1.3, 1.02, 1.04}, 3, 1.05));
  EXPECT_FALSE(agree({1.0, 1.1, 1.2, 1.3}, 3, 1.05));
  EXPECT_FALSE(agree({1.0, 1.02, 1.04, 0.9}, 3, 1.05)) << "a better round puts the others in doubt";
}

}  // namespace
}  // namespace lathe::cli
