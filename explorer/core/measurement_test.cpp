// SPDX-License-Identifier: Apache-2.0
//
// How far a measurement can be trusted, and what is concluded from it.
#include <gtest/gtest.h>

#include "base/json.h"
#include "explorer/core/analysis_json.h"
#include "explorer/core/engine_files_test.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

TEST(Analysis, DisturbedRunsAreNotIdleTime) {
  const InputFile profile = recognise_file(
      "profile.json",
      R"([{"count": 10}, {"name": "conv", "timeMs": 10, "averageMs": 1, "medianMs": 0.9, "percentage": 1},
        {"name": "fc", "timeMs": 10, "averageMs": 1, "medianMs": 0.9, "percentage": 1}])");
  const InputFile times = recognise_file(
      "times.json", R"([{"startComputeMs": 0, "endComputeMs": 1, "computeMs": 2, "latencyMs": 2},
      {"startComputeMs": 3, "endComputeMs": 4, "computeMs": 2, "latencyMs": 2}, {"startComputeMs": 5, "endComputeMs": 6, "computeMs": 8, "latencyMs": 8}])");
  const auto engine = analyse({layers_file({kConv, kFc}, "\"x\",\"y\""), profile, times});
  const auto& s = engine.statistics;
  ASSERT_EQ(s.gap_parts.size(), 2u);
  EXPECT_EQ(s.gap_parts[0].name, "disturbed_runs");
  EXPECT_EQ(s.gap_parts[0].ms, 1.8);  // 4 - 2, less 2 - 1.8
  EXPECT_EQ(s.gap_parts[1].ms, 0.2);
  EXPECT_EQ(s.gap_ms, 2);
  EXPECT_EQ(s.gap_median_ms, 0.2);
  EXPECT_EQ(
      s.gap_text,
      "The engine takes 2.00 ms in a typical run; its layers, timed one by one, add up to 1.80 ms. The other "
      "0.200 ms pass between layers: starting them, waiting for threads.");
  for (const auto& finding : engine.findings) EXPECT_NE(finding.id, "sum-differs-from-latency");
}

TEST(Analysis, ABusyMachineWinsNothing) {
  const InputFile times = recognise_file(
      "times.json", R"([{"startComputeMs": 0, "endComputeMs": 9, "computeMs": 9, "latencyMs": 9}])");
  const InputFile hardware = recognise_file(
      "h.json",
      R"({"schema": "lathe-hardware", "text": "", "samples": [{"at_ms": 0}, {"at_ms": 1, "others_percent": 40}]})");
  for (const bool busy : {false, true}) {
    std::vector<InputFile> files = {layers_file({kConv, kFc}, "\"x\",\"y\""),
                                    profile_file({{"conv", 1}, {"fc", 1}}), times};
    if (busy) files.push_back(hardware);
    const auto engine = analyse(files);
    const auto found = std::find_if(engine.findings.begin(), engine.findings.end(),
                                    [](const Finding& f) { return f.id == "sum-differs-from-latency"; });
    ASSERT_NE(found, engine.findings.end());
    EXPECT_EQ(found->gain_ms.has_value(), !busy);
  }
}

TEST(Analysis, TimesOfABusyMachineAreNotUsable) {
  const std::string back =
      layer("r1", "Reformat", tensor("h", "1,4,8,8", "Half"), tensor("i", "1,4,8,8", "Float")) + "," +
      layer("r2", "Reformat", tensor("i", "1,4,8,8", "Float"), tensor("j", "1,4,8,8", "Half"));
  for (const int others : {5, 66}) {
    const auto engine = analyse(
        {layers_file({kConv, back}, "\"x\",\"j\""), profile_file({{"conv", 1}, {"r1", 0.5}, {"r2", 0.25}}),
         recognise_file(
             "h.json",
             fmt::format(
                 R"({{"schema": "lathe-hardware", "text": "", "samples": [{{"at_ms": 1, "others_percent": {}}}]}})",
                 others))});
    const Finding* pair = finding_of(engine, "reformat-ping-pong");
    ASSERT_NE(pair, nullptr);
    EXPECT_EQ(pair->gain_ms.has_value(), others == 5);
    EXPECT_EQ(engine.measurement.usable, others == 5);
    EXPECT_EQ(engine.measurement.text,
              others == 5
                  ? ""
                  : "These times are not usable: other programs had 66 % of the processors. Measure again "
                    "when the machine is quiet.");
    const std::string text = summary_text({{engine}, {}}, false);
    EXPECT_EQ(text.find("CAREFUL") != std::string::npos, others != 5) << text;
    for (const auto& finding : engine.findings) {
      if (finding.id == "noisy-timing") continue;  // it says what was measured, and why not to use it
      for (const auto& line : finding.evidence)
        EXPECT_TRUE(others == 5 || line.find(" ms") == std::string::npos) << line;
    }
  }
}

TEST(Analysis, RunsThatDifferMuchAreNotUsable) {
  std::string runs;
  for (int i = 0; i < 20; ++i)
    runs += fmt::format(R"({}{{"startComputeMs": {}, "computeMs": {}, "latencyMs": {}}})", i == 0 ? "" : ",",
                        20 * i, i % 5 == 0 ? 9 : 2, i % 5 == 0 ? 9 : 2);
  const auto engine =
      analyse({layers_file({kConv}, "\"x\""), recognise_file("times.json", "[" + runs + "]")});
  EXPECT_FALSE(engine.measurement.usable);
  EXPECT_NE(engine.measurement.text.find("a tenth of the runs took at least 350 % longer"), std::string::npos)
      << engine.measurement.text;
}

TEST(Analysis, ContextSaysWhatRanWhereAndWhen) {
  const std::string log =
      "[11/24/2026-21:03:28] [I] === Device Information ===\n[11/24/2026-21:03:28] [I] Selected Device: Some "
      "CPU\n"
      "[11/24/2026-21:03:28] [I] Selected Device ID: cpu\n[11/24/2026-21:03:28] [I] Cores: 8\n";
  const InputFile layers = recognise_file(
      "layers.json",
      fmt::format(
          R"({{"Layers": [{}], "Bindings": ["x","h"], "I/O Tensors": [{{"Name": "x", "IOMode": "Input", "Dimensions": [1,3,8,8], "DataType": "Float"}}], "Producer": "Lathe 0.2.0"}})",
          kConv));
  const auto engine = analyse({layers, recognise_file("run.log", log)});
  EXPECT_EQ(engine.context.device, "Some CPU");
  EXPECT_EQ(engine.context.threads, "8 threads");
  EXPECT_EQ(engine.context.shapes, "1x3x8x8");
  EXPECT_EQ(engine.context.precision, "FP32");
  EXPECT_EQ(engine.context.date, "2026-11-24 21:03");
  EXPECT_EQ(engine.context.version, "Lathe 0.2.0");
}

TEST(Analysis, QuantisationIsNotUndone) {
  std::vector<std::string> layers;
  std::vector<std::pair<std::string, double>> times;
  for (int i = 0; i < 8; ++i) {
    const std::string a = fmt::format("a{}", i), q = fmt::format("q{}", i), b = fmt::format("a{}", i + 1);
    layers.push_back(layer("Q" + q, "Cast", tensor(a, "1,8"), tensor(q, "1,8", "Int8"),
                           R"(, "ParameterType": "QuantizeLinear")"));
    layers.push_back(layer("D" + q, "Cast", tensor(q, "1,8", "Int8"), tensor(b, "1,8"),
                           R"(, "ParameterType": "DequantizeLinear")"));
    times.emplace_back("Q" + q, 1);
    times.emplace_back("D" + q, 1);
  }
  const auto engine = analyse({layers_file(layers, "\"a0\",\"a8\""), profile_file(times)});
  EXPECT_EQ(finding_of(engine, "reformat-ping-pong"), nullptr);
  EXPECT_EQ(finding_of(engine, "reformats"), nullptr) << "they are the model's, and no changes of layout";
  ASSERT_NE(finding_of(engine, "dangling-qdq"), nullptr);
  EXPECT_LE(finding_of(engine, "dangling-qdq")->evidence.size(), 4u);
}

TEST(Analysis, PairsThatUndoEachOtherAreABoundedList) {
  std::vector<std::string> layers;
  std::vector<std::pair<std::string, double>> times;
  for (int i = 0; i < 8; ++i) {
    const std::string a = fmt::format("a{}", i), q = fmt::format("q{}", i), b = fmt::format("a{}", i + 1);
    layers.push_back(layer("R" + q, "Reformat", tensor(a, "1,8"), tensor(q, "1,8", "Half")));
    layers.push_back(layer("S" + q, "Reformat", tensor(q, "1,8", "Half"), tensor(b, "1,8")));
    times.emplace_back("R" + q, 1);
    times.emplace_back("S" + q, 1);
  }
  const Finding* found = nullptr;
  const auto engine = analyse({layers_file(layers, "\"a0\",\"a8\""), profile_file(times)});
  ASSERT_NE(found = finding_of(engine, "reformat-ping-pong"), nullptr);
  ASSERT_EQ(found->evidence.size(), 4u);
  EXPECT_EQ(found->evidence[3], "and 12 more");  // every change but the first and the last is in two pairs
}

TEST(Analysis, ReferenceLayersAreAFindingWithTheReason) {
  const std::string slow =
      layer("slow", "Ref", tensor("x", "1,8"), tensor("y", "1,8"),
            R"(, "TacticName": "reference_Conv", "Fallback": "the filter is no constant")");
  const std::string plain =
      layer("plain", "Ref", tensor("y", "1,8"), tensor("z", "1,8"), R"(, "TacticName": "reference_Lrn")");
  const auto engine = analyse(
      {layers_file({slow, plain, kFc}, "\"x\",\"z\""), profile_file({{"slow", 8}, {"plain", 1}, {"fc", 1}})});
  const Finding* found = finding_of(engine, "reference-layers");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->title, "On the slow reference implementation: 2 layers, 90 % of the time");
  EXPECT_EQ(found->severity, "high");
  EXPECT_EQ(found->evidence, (std::vector<std::string>{"slow: 8.00 ms, the filter is no constant",
                                                       "plain: 1.00 ms, reference_Lrn"}));
  EXPECT_EQ(find(engine, "slow").fallback, "the filter is no constant");
  EXPECT_EQ(find(engine, "fc").fallback, "");
}

TEST(Analysis, HigherPrecisionIsAFindingWithTheReason) {
  const std::string slow = layer(
      "slow", "Conv", tensor("x", "1,8"), tensor("y", "1,8"),
      R"(, "TacticName": "conv", "PrecisionReason": "its scale is computed", "PrecisionHint": "a constant one")");
  const auto engine =
      analyse({layers_file({slow, kFc}, "\"x\",\"z\""), profile_file({{"slow", 9}, {"fc", 1}})});
  const Finding* found = finding_of(engine, "higher-precision");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->title, "In a higher precision than is allowed: 1 layer, 90 % of the time");
  EXPECT_EQ(found->evidence,
            std::vector<std::string>{"slow: its scale is computed; would help: a constant one"});
  EXPECT_EQ(finding_of(analyse({layers_file({kConv, kFc}, "\"x\",\"y\"")}), "higher-precision"), nullptr);
}

TEST(Analysis, AboveTheRoofSaysWhichRoof) {
  AnalysisOptions options;
  options.peaks.source = "measured";
  options.peaks.flops_per_s["FP32"] = 13824 / 1e-3;  // conv: 1 ms
  options.peaks.bytes_per_s = 1e9;
  options.peaks.unstable = {"FP32"};
  const auto engine = analyse_engine(
      {layers_file({kConv, kFc}, "\"x\",\"y\""), profile_file({{"conv", 0.25}, {"fc", 9}})}, options);
  std::string notes;
  for (const auto& note : engine.notes) notes += note.text + "\n";
  EXPECT_NE(notes.find("1 layer is above the roof of computing: fewer operations"), std::string::npos)
      << notes;
  EXPECT_EQ(notes.find("caches"), std::string::npos) << notes;
  EXPECT_NE(notes.find("The peak of FP32 was different each time"), std::string::npos) << notes;
}

TEST(Analysis, LayersBringWhatTheTunerTried) {
  const std::string conv = layer(
      "conv", "R", tensor("x", "1,3,8,8"), tensor("h", "1,4,8,8"),
      R"(, "TacticName": "b", "Tuning": {"Timed": [{"Name": "a", "Runner": "R", "Types": "t", "Ms": 0.5}, {"Name": "b", "Runner": "R", "Types": "u", "Ms": 0.75, "Chosen": "yes"}, {"Name": "c", "Runner": "R", "Types": "t"}], "Refused": [{"Name": "d", "Runner": "S", "Reason": "no AMX"}], "LeftOut": 7})");
  const auto engine = analyse({layers_file({conv}, "\"x\",\"h\"")});
  const Json json = analysis_json({{engine}, {}});
  const Json& tuning = json["engines"][0]["layers"][0]["tuning"];
  EXPECT_EQ(tuning["timed"].size(), 3u);
  EXPECT_EQ(tuning["timed"][0]["ms"], 0.5);
  EXPECT_EQ(tuning["timed"][1]["chosen"], true);
  EXPECT_EQ(tuning["timed"][2]["ms"], nullptr);
  EXPECT_EQ(tuning["refused"][0]["reason"], "no AMX");
  EXPECT_EQ(tuning["left_out"], 7);
  EXPECT_FALSE(engine.layers[0].attributes->contains("Tuning"));
}

TEST(Analysis, SingleRunsFollowTheirLayers) {
  // The no-op between the layers is folded away; the times of those after it must not move up.
  const InputFile runs = recognise_file(
      "runs.json",
      R"({"schema": "lathe-layer-runs", "count": 30, "layers": ["conv", "n", "fc"], "runs": [{"run": 0, "timesMs": [1, 0, 3]}, {"run": 29, "timesMs": [2, 0, 4]}]})");
  const auto engine = analyse(
      {layers_file(
           {kConv, layer("n", "NoOp", tensor("h", "1,4,8,8"), tensor("h2", "4,64")),
            layer("fc", "gemm", tensor("h2", "4,64") + "," + tensor("w", "64,10"), tensor("y", "4,10"))},
           "\"x\",\"y\""),
       runs});
  const Json json = analysis_json({{engine}, {}});
  const Json& kept = json["engines"][0]["layer_runs"];
  EXPECT_EQ(kept["count"], 30);
  EXPECT_EQ(kept["numbers"], Json::array({0, 29}));
  EXPECT_EQ(kept["times_ms"], Json::array({Json::array({1.0, 3.0}), Json::array({2.0, 4.0})}));
}

}  // namespace
}  // namespace lathe::explorer
