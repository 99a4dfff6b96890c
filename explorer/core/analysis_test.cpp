// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "explorer/core/analyse.h"
#include "explorer/core/analysis_json.h"
#include "explorer/core/decimal.h"
#include "explorer/core/engine_files_test.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

TEST(Summary, NamesDoNotReachTheTerminalRaw) {
  const std::string evil = R"(co\u001b]0;owned\u0007nv)";
  const EngineData engine = analyse(
      {layers_file({layer(evil, "Conv\\u001b[2J", tensor("x", "1"), tensor("y", "1"))}, "\"x\",\"y\""),
       profile_file({{evil, 1.0}})});
  for (const bool colour : {false, true}) {
    const std::string text = summary_text({{engine}, {}}, colour);
    EXPECT_NE(text.find("co\\x1b]0;owned\\x07nv"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x07'), std::string::npos);
    EXPECT_EQ(text.find("\x1b["), colour ? text.find("\x1b[1m") : std::string::npos);
    EXPECT_EQ(text.find("\x1b]"), std::string::npos);
    EXPECT_EQ(text.find("\x1b[2J"), std::string::npos);
  }
}

TEST(Analysis, JoinsByNameAndNotByPosition) {
  const auto engine =
      analyse({layers_file({kConv, kFc}, "\"x\",\"y\""), profile_file({{"fc", 0.2}, {"conv", 0.1}})});
  EXPECT_EQ(find(engine, "conv").time->average_ms, 0.1);
  EXPECT_EQ(find(engine, "fc").time->average_ms, 0.2);
  EXPECT_EQ(engine.statistics.layer_sum_ms, 0.3);  // 0.1 + 0.2 in binary is not
}

TEST(Analysis, ReportsWhatDoesNotFit) {
  const auto engine =
      analyse({layers_file({kConv, kFc}, "\"x\",\"y\""), profile_file({{"conv", 0.1}, {"stranger", 0.7}})});
  EXPECT_FALSE(find(engine, "fc").time);  // unknown, not 0
  ASSERT_GE(engine.notes.size(), 2u);
  EXPECT_EQ(engine.notes[0].severity, "error");
  EXPECT_NE(engine.notes[0].text.find("1 record (0.700 ms per run) names no layer"), std::string::npos)
      << engine.notes[0].text;
  EXPECT_NE(engine.notes[1].text.find("fc"), std::string::npos);
}

TEST(Analysis, RefusesFilesOfDifferentEngines) {
  try {
    analyse({layers_file({kConv}, "\"x\""), profile_file({{"other", 1}})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("these files are not of one engine"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(analyse({profile_file({{"a", 1}})}), Error);
  EXPECT_THROW(analyse({layers_file({kConv}, ""), layers_file({kConv}, "")}), Error);
}

TEST(Analysis, NamesThatOccurTwiceAreJoinedInOrder) {
  const auto engine = analyse({layers_file({layer("a", "T", "", tensor("p", "1")),
                                            layer("a", "T", tensor("p", "1"), tensor("q", "1"))},
                                           "\"q\""),
                               profile_file({{"a", 1}, {"a", 2}})});
  EXPECT_EQ(find(engine, "a").time->average_ms, 1);
  EXPECT_EQ(find(engine, "a_2").time->average_ms, 2);
  EXPECT_TRUE(engine.notes.empty() || engine.notes[0].severity == "info");
}

TEST(Analysis, FoldsNoOpsAndConstants) {
  const auto engine = analyse({layers_file(
      {layer("c", "Constant", "", tensor("w", "64,10")), kConv,
       layer("n", "NoOp", tensor("h", "1,4,8,8"), tensor("h2", "4,64")),
       layer("fc", "gemm", tensor("h2", "4,64") + "," + tensor("w", "64,10"), tensor("y", "4,10"))},
      "\"x\",\"y\"")});
  ASSERT_EQ(engine.layers.size(), 2u);
  bool connected = false;
  for (const auto& edge : engine.edges) connected = connected || (edge.from == 0 && edge.to == 1);
  EXPECT_TRUE(connected);
  EXPECT_TRUE(find(engine, "fc").inputs[1].is_weights);
  EXPECT_EQ(find(engine, "fc").weights_bytes, 640 * 4);
  EXPECT_EQ(engine.memory.weights_bytes, 640 * 4 + 108 * 4);
}

TEST(Analysis, ANoOpBetweenInputAndOutputStays) {
  const auto engine =
      analyse({layers_file({layer("n", "NoOp", tensor("x", "4"), tensor("y", "4"))}, "\"x\",\"y\"")});
  EXPECT_EQ(engine.layers.size(), 1u);
}

TEST(Analysis, TimedConstantsStayAndLayersNeedNoTensors) {
  const auto engine =
      analyse({layers_file({layer("c", "Constant", "", tensor("w", "1")), layer("t", "TrainStation", "", ""),
                            layer("s", "signal", "", ""), layer("u", "wait", "", "")},
                           ""),
               profile_file({{"c", 0.5}, {"t", 0.25}, {"s", 0}, {"u", 0}})});
  EXPECT_EQ(engine.layers.size(), 4u);
  EXPECT_EQ(engine.statistics.layer_sum_ms, 0.75);
  EXPECT_EQ(find(engine, "t").kind, "sync");
}

TEST(Analysis, CountsFlopsAndBytes) {
  const auto engine = analyse({layers_file({kConv, kFc}, "\"x\",\"y\"")});
  const Layer& conv = find(engine, "conv");
  EXPECT_EQ(conv.flops, 2.0 * 4 * 64 * 27);
  EXPECT_EQ(conv.flops_source, "counted");
  EXPECT_EQ(conv.bytes_read, (192 + 108) * 4);
  EXPECT_EQ(conv.bytes_written, 256 * 4);
  EXPECT_EQ(find(engine, "fc").flops, 2.0 * 40 * 64);
}

// TensorRT's convolution with a pooling behind it: the attributes have prefixes, the convolution's result is
// no tensor.
TEST(Analysis, CountsConvolutionsWithPooling) {
  const std::string stem = layer(
      "stem", "ConvActPool", tensor("x", "2,3,224,224"), tensor("h", "2,64,56,56"),
      R"(, "ParameterType": "ConvActPool", "ConvKernel": [7,7], "ConvPrePadding": [3,3], "ConvPostPadding": [3,3],
         "ConvStride": [2,2], "ConvDilation": [1,1], "ConvOutMaps": 64, "ConvGroups": 1, "ConvActivation": "RELU",
         "ConvWeights": {"Type": "Int8", "Count": 9408}, "ConvBias": {"Type": "Float", "Count": 64},
         "PoolingWindowSize": [3,3], "PoolingStride": [2,2])");
  const auto engine = analyse({layers_file({stem}, "\"x\",\"h\"")});
  const Layer& found = find(engine, "stem");
  const double inner = 2.0 * 64 * 112 * 112;
  EXPECT_EQ(found.flops, 2 * inner * 3 * 49 + inner + 2.0 * 64 * 56 * 56 * 9);
  EXPECT_EQ(found.weights_bytes, 9408 + 64 * 4);
}

TEST(Analysis, PrecisionIsThatOfTheArithmetic) {
  const auto engine = analyse(
      {layers_file({layer("g", "Gather", tensor("i", "1,4", "Int32") + "," + tensor("t", "9,8", "Half"),
                          tensor("e", "1,4,8", "Half")),
                    layer("m", "gemm", tensor("e", "4,8", "Half") + "," + tensor("w", "8,8", "FP8"),
                          tensor("o", "4,8", "Float")),
                    layer("r", "Reformat", tensor("o", "4,8", "Float"), tensor("p", "4,8", "Int8"),
                          R"(, "Origin": "QDQ")")},
                   "\"i\",\"p\"")});
  EXPECT_EQ(find(engine, "g").precision, "FP16");
  EXPECT_EQ(find(engine, "m").precision, "FP8");
  EXPECT_EQ(find(engine, "r").precision, "INT8");
  EXPECT_EQ(find(engine, "r").kind, "cast");
}

TEST(Analysis, JoinsAccuracyByLayer) {
  const InputFile accuracy = recognise_file("diff.json", R"({"layers": [
    {"layer": "conv", "local": {"relative_l2": 0.5}, "limit": 0.001, "accumulated": {"relative_l2": 0.25}, "bad": true},
    {"layer": "gone", "local": null, "limit": 0, "accumulated": null, "bad": false}], "outputs": [], "threshold": 0.1, "passed": false})");
  const auto engine = analyse({layers_file({kConv, kFc}, "\"x\",\"y\""), accuracy});
  ASSERT_TRUE(find(engine, "conv").error);
  EXPECT_EQ(find(engine, "conv").error->local, 0.5);
  EXPECT_EQ(find(engine, "conv").error->accumulated, 0.25);
  EXPECT_FALSE(find(engine, "fc").error);
  EXPECT_NE(engine.notes.back().text.find("1 of 2 accuracy records"), std::string::npos);
  const bool found = std::any_of(engine.findings.begin(), engine.findings.end(),
                                 [](const Finding& f) { return f.id == "inaccurate-layer"; });
  EXPECT_TRUE(found);
}

TEST(Analysis, MemoryOverExecutionOrder) {
  const auto engine = analyse({layers_file({layer("a", "T", tensor("x", "10"), tensor("p", "100")),
                                            layer("b", "T", tensor("p", "100"), tensor("q", "50")),
                                            layer("c", "T", tensor("q", "50"), tensor("y", "1"))},
                                           "\"x\",\"y\"")});
  // Inputs live to their last reader, outputs from their writer to the end.
  EXPECT_EQ(engine.memory.steps, (std::vector<int64_t>{440, 600, 204}));
  EXPECT_EQ(engine.memory.peak_layer, 1);
  EXPECT_EQ(engine.memory.peak_tensors.size(), 2u);
}

std::string placed(const std::string& name, const std::string& dims, const std::string& place) {
  return fmt::format(R"({{"Name": "{}", "Dimensions": [{}], "Format/Datatype": "Float", {}}})", name, dims,
                     place);
}

TEST(Analysis, WhatSharesMemoryCountsOnce) {
  // a writes p; a view of it lives until c; q lies in p's second half.
  const std::string p = placed("p", "100", R"("ArenaOffset": 64)"),
                    v = placed("v", "10,10", R"("AliasOf": "p", "AliasOffset": 0)"),
                    q = placed("q", "50", R"("AliasOf": "v", "AliasOffset": 200)");
  const InputFile file = recognise_file(
      "layers.json",
      fmt::format(
          R"({{"Layers": [{},{},{},{}], "Bindings": ["x","y"], "ArenaBytes": 464, "BuildSettings": "level 2, fp32+bf16", "Producer": "Lathe 1"}})",
          layer("a", "T", tensor("x", "10"), p), layer("b", "View", p, v, R"(, "ParameterType": "Shuffle")"),
          layer("c", "T", tensor("x", "10"), tensor("r", "1")),
          layer("d", "T", v + "," + q, tensor("y", "1"))));
  const auto engine = analyse({file});
  EXPECT_EQ(engine.memory.steps, (std::vector<int64_t>{440, 440, 444, 404}));
  EXPECT_EQ(engine.memory.arena_bytes, 464);
  EXPECT_EQ(find(engine, "b").kind, "view");
  EXPECT_FALSE(find(engine, "b").is_overhead());
  EXPECT_EQ(find(engine, "b").roofline.verdict, "none");
  EXPECT_EQ(engine.build_settings, "level 2, fp32+bf16");
  for (const auto& t : engine.tensors) {
    if (t.name == "p") {
      EXPECT_EQ(t.last, 3) << "as long as its views";
    } else if (t.name == "q" || t.name == "v") {
      EXPECT_EQ(engine.tensors[static_cast<size_t>(t.alias_of.value())].name, "p");
      EXPECT_EQ(t.offset, t.name == "q" ? 200 : 0);
    }
  }
}

TEST(Analysis, ARingOfAliasesIsNone) {
  const auto engine =
      analyse({layers_file({layer("a", "T", tensor("x", "1"),
                                  placed("p", "2", R"("AliasOf": "q", "AliasOffset": 0)") + "," +
                                      placed("q", "4", R"("AliasOf": "p", "AliasOffset": 0)"))},
                           "\"x\"")});
  EXPECT_GT(engine.memory.peak_bytes, 0);
}

TEST(Analysis, HeldMemoryIsNamed) {
  const auto engine = analyse(
      {layers_file({layer("a", "T", tensor("x", "1"), tensor("held", "100")),
                    layer("b", "T", tensor("held", "100"), tensor("p", "50")),
                    layer("c", "T", tensor("p", "50"), tensor("q", "200")),
                    layer("d", "T", tensor("q", "200"), tensor("r", "1")),
                    layer("e", "T", tensor("r", "1") + "," + tensor("held", "100"), tensor("y", "1"))},
                   "\"x\",\"y\"")});
  const auto found = std::find_if(engine.findings.begin(), engine.findings.end(),
                                  [](const Finding& f) { return f.id == "held-memory"; });
  ASSERT_NE(found, engine.findings.end());
  ASSERT_EQ(found->evidence.size(), 1u);
  EXPECT_NE(found->evidence[0].find("held: 400 B, unused from layer 1 to 4; the peak would be 1000 B"),
            std::string::npos)
      << found->evidence[0];
}

// Slow runs of a busy machine are no property of the engine: they are a part of the gap of their own, and no
// finding. Where others had the processors no time is a basis for anything: said first, and no finding claims
// milliseconds. Q rounds to 256 values: DQ gives none of them back.
// A layer above the roof of computing owes it to fewer operations, not to a cache.
TEST(Analysis, RooflineWithGivenPeaks) {
  AnalysisOptions options;
  options.peaks.source = "given";
  options.peaks.flops_per_s["FP32"] = 13824 / 1e-3;  // conv: 1 ms
  options.peaks.bytes_per_s = 1e9;
  options.peaks.launch_ms = 0.01;
  const auto engine = analyse_engine(
      {layers_file({kConv, kFc}, "\"x\",\"y\""), profile_file({{"conv", 2}, {"fc", 0.001}})}, options);
  const auto& roof = find(engine, "conv").roofline;
  EXPECT_EQ(roof.verdict, "compute");
  EXPECT_DOUBLE_EQ(*roof.roof_ms, 1);
  EXPECT_DOUBLE_EQ(*roof.percent_of_roof, 50);
  EXPECT_DOUBLE_EQ(*roof.recoverable_ms, 2 - 1 / 0.8);
  EXPECT_EQ(find(engine, "fc").roofline.verdict, "launch");
}

// Engines of fast devices have no layer long enough to be trusted alone.
TEST(Analysis, RoofOfShortLayersIsTheirOwn) {
  const auto files = [](double conv, double fc) {
    return std::vector<InputFile>{layers_file({kConv, kFc}, "\"x\",\"y\""),
                                  profile_file({{"conv", conv}, {"fc", fc}})};
  };
  const auto fast = analyse(files(0.01, 0.004)), slow = analyse(files(1, 0.004));
  EXPECT_EQ(fast.peaks.source, "estimated");
  for (const auto& l : fast.layers) EXPECT_LE(*l.roofline.percent_of_roof, 100.001);
  EXPECT_DOUBLE_EQ(*find(slow, "conv").roofline.percent_of_roof, 100);
  EXPECT_GT(*find(slow, "fc").roofline.percent_of_roof, 100);
  EXPECT_NE(slow.notes[0].text.find("shorter ones"), std::string::npos);
}

TEST(Analysis, DominantLayersBeginWithTheSlowest) {
  std::vector<std::string> layers;
  std::vector<std::pair<std::string, double>> times;
  for (const auto& [name, ms] : {std::pair{"a", 2.0}, {"b", 5.0}, {"c", 3.0}, {"d", 0.1}, {"e", 0.1}}) {
    layers.push_back(fmt::format("\"{}\"", name));
    times.emplace_back(name, ms);
  }
  const auto engine = analyse({layers_file(layers, "\"x\""), profile_file(times)});
  std::vector<std::string> titles;
  for (const auto& finding : engine.findings) {
    if (finding.id == "dominant-layer") titles.push_back(finding.evidence[0]);
  }
  EXPECT_EQ(titles, (std::vector<std::string>{"b: 5.00 ms of 10.2 ms", "c: 3.00 ms of 10.2 ms",
                                              "a: 2.00 ms of 10.2 ms"}));
}

TEST(Analysis, SeriesAreTrtexecs) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Series series = summarize_series(values);
  EXPECT_EQ(series.median_ms, 50.5);
  EXPECT_EQ(series.p99_ms, 100);  // as the original, which rounds in 32 bits
  EXPECT_EQ(series.p90_ms, 90);
}

TEST(Analysis, GroupsAddUpToTheSum) {
  const auto engine =
      analyse({layers_file({kConv, kFc}, "\"x\",\"y\""), profile_file({{"fc", 0.0312}, {"conv", 0.7123}})});
  ExactSum sum;
  for (const auto& group : engine.groups.by_type) sum.add(*group.time_ms);
  EXPECT_EQ(sum.value(), engine.statistics.layer_sum_ms);
  EXPECT_EQ(engine.groups.by_type[0].key, "Convolution");
}

TEST(Analysis, FindingsAreRankedAndKeepAllHazards) {
  const std::string conv = layer(
      "conv", "CaskConvolution", tensor("x", "1,3,8,8", "Int8"), tensor("h", "1,30,8,8", "Half"),
      R"(, "ParameterType": "Convolution", "Kernel": [3,3], "Groups": 1, "TacticName": "plain_kernel")");
  const std::string back =
      layer("r1", "Reformat", tensor("h", "1,30,8,8", "Half"), tensor("i", "1,30,8,8", "Float")) + "," +
      layer("r2", "Reformat", tensor("i", "1,30,8,8", "Float"), tensor("j", "1,30,8,8", "Half"));
  const auto engine = analyse(
      {layers_file({conv, back}, "\"x\",\"j\""), profile_file({{"conv", 1}, {"r1", 0.5}, {"r2", 0.25}})});
  std::vector<std::string> ids;
  for (const auto& finding : engine.findings) ids.push_back(finding.id);
  for (const char* id :
       {"no-tensor-core", "quantised-in-float-out", "channel-alignment", "reformats", "reformat-ping-pong"})
    EXPECT_NE(std::find(ids.begin(), ids.end(), id), ids.end()) << id;
  for (size_t i = 1; i < engine.findings.size(); ++i) {
    if (engine.findings[i].severity != engine.findings[i - 1].severity) continue;
    EXPECT_LE(engine.findings[i].gain_ms.value_or(0), engine.findings[i - 1].gain_ms.value_or(0));
  }
}

TEST(Analysis, RunnersTellWhereThereIsNoTactic) {
  const auto flagged = [](const std::string& runner) {
    const auto engine = analyse(
        {layers_file({layer("c", runner, tensor("x", "1,8,8,8", "Int8"), tensor("h", "1,8,8,8", "Int8"),
                            R"(, "ParameterType": "Convolution", "Kernel": [3,3], "Groups": 8)")},
                     "\"x\",\"h\"")});
    return std::any_of(engine.findings.begin(), engine.findings.end(),
                       [](const Finding& f) { return f.id == "no-tensor-core"; });
  };
  EXPECT_TRUE(flagged("CudaDepthwiseConvolution"));
  EXPECT_FALSE(flagged("CaskConvolution"));
}

TEST(Analysis, ManyLayersTakeNoTime) {
  std::vector<std::string> layers;
  std::vector<std::pair<std::string, double>> times;
  for (int i = 0; i < 10000; ++i) {
    layers.push_back(layer(fmt::format("l{}", i), "T", tensor(fmt::format("t{}", i), "1,8"),
                           tensor(fmt::format("t{}", i + 1), "1,8")));
    times.emplace_back(fmt::format("l{}", i), 0.001);
  }
  const auto engine = analyse({layers_file(layers, "\"t0\""), profile_file(times)});
  EXPECT_EQ(engine.statistics.layer_sum_ms, 10);
}

TEST(Text, FitsInEightyColumns) {
  const std::string name(200, 'n');
  auto engine = analyse(
      {layers_file({layer(name, "CaskConvolution", tensor("x", "1,3,8,8"), tensor("h", "1,4,8,8"))}, "\"x\""),
       profile_file({{name, 123.456789}})});
  Finding finding{"id", "title", "low", "low"};
  finding.command =
      "trtexec --onnx=model.onnx --minShapes=input_ids:1x1,attention_mask:1x1 --optShapes=input_ids:1x128 "
      "--fp16";
  engine.findings.push_back(finding);
  const std::string text = summary_text({{engine}, {}}, false);
  size_t start = 0;
  for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    EXPECT_LE(text_width(text.substr(start, end - start)), 80u) << text.substr(start, end - start);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(
      text.find(
          "$ trtexec --onnx=model.onnx --minShapes=input_ids:1x1,attention_mask:1x1 \\\n       --optShapes"),
      std::string::npos)
      << text;
  EXPECT_NE(summary_text({{engine}, {}}, true).find("\x1b[1m"), std::string::npos);
}

TEST(Text, ThreeDigits) {
  for (const auto& [value, text] : {std::pair{14.6685101, "14.7"},
                                    {0.00031234, "0.000312"},
                                    {1240.0, "1240"},
                                    {0.9996, "1.00"},
                                    {99.96, "100"},
                                    {5.0, "5.00"},
                                    {0.0, "0"}})
    EXPECT_EQ(three_digits(value), text);
}

TEST(Text, UsesTheWidthThatThereIs) {
  const std::string name = "/encoder/" + std::string(60, 'n') + "/Conv";
  const auto engine = analyse(
      {layers_file({layer(name, "CaskConvolution", tensor("x", "1,3,8,8"), tensor("h", "1,4,8,8"))}, "\"x\""),
       profile_file({{name, 1}})});
  for (const size_t width : {80u, 100u, 120u}) {
    const std::string text = summary_text({{engine}, {}}, false, width);
    size_t start = 0, most = 0;
    for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
      most = std::max(most, text_width(text.substr(start, end - start)));
    EXPECT_LE(most, width);
    if (width != 100) {
      EXPECT_EQ(text.find(std::string(60, 'n')) != std::string::npos, width == 120) << text;
    }
  }
}

TEST(Text, WithoutTimesListsLayersAsTheyRun) {
  const std::string text = summary_text({{analyse({layers_file({kConv, kFc}, "\"x\",\"y\"")})}, {}}, false);
  EXPECT_NE(text.find("Layers, in order\n    0  Convolution      FP32  conv\n    1  gemm "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("No profile was given"), std::string::npos);
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) names.push_back(fmt::format("\"layer{}\"", i));
  const std::string bare = summary_text({{analyse({layers_file(names, "\"x\"")})}, {}}, false);
  EXPECT_NE(bare.find("    9  layer9\n       and 2 more\n"), std::string::npos) << bare;
}

TEST(Text, TraceHasALayerPerEvent) {
  const auto engine =
      analyse({layers_file({kConv, kFc}, "\"x\",\"y\""), profile_file({{"conv", 0.5}, {"fc", 0.25}})});
  const Json trace = parse_json(trace_json({{engine, engine}, {}}), "trace");
  std::vector<std::pair<double, double>> spans;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == 1) spans.emplace_back(event["ts"], event["dur"]);
  }
  EXPECT_EQ(spans, (std::vector<std::pair<double, double>>{{0, 500}, {500, 250}}));
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "layers");
}

TEST(Text, LabelsAreShortInOneWay) {
  EXPECT_EQ(layer_label("/a/b + /a/c"), "a/b +1") << "short in the same way where there would be room";
  EXPECT_EQ(layer_label("/m/encoder/layer.3/attention/self/query/MatMul + /m/x/Add + /m/y/Mul", 60),
            "layer.3/\u2026/self/query/MatMul +2");
  EXPECT_EQ(layer_label("/features/features.2/features.2.0/block/block.0/Conv", 40),
            "features.2.0/block/block.0/Conv");
  EXPECT_EQ(layer_label("Reformatting CopyNode for Input Tensor 0 to /a/conv + /a/relu", 40),
            "reformat for a/conv +1");
  EXPECT_EQ(layer_label(
                "net/quant_conv1/Last/ReadVariableOp:0 + QuantLinearNode__638 + net/quant_conv1/Conv2D", 40),
            "net/quant_conv1/Conv2D +2");
  EXPECT_EQ(layer_label("one name that is long and no path", 12), "one n\u2026o path");
}

}  // namespace
}  // namespace lathe::explorer
