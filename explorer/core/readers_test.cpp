// SPDX-License-Identifier: Apache-2.0
#include "explorer/core/readers.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "explorer/core/analyse.h"
#include "explorer/core/tensor_words.h"

namespace lathe::explorer {
namespace {

InputFile file(const std::string& name, const std::string& text) {
  return recognise_file(name, text);
}

// The message of what `act` throws, "" when it throws nothing.
template <class Act>
std::string message(Act act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "";
}

TEST(Readers, ElementTypesOfEveryRelease) {
  EXPECT_EQ(element_type("Row major linear FP32"), "FP32");
  EXPECT_EQ(element_type("Row major linear FP32 format (kLINEAR)"), "FP32");  // 11
  EXPECT_EQ(element_type("Half"), "FP16");
  EXPECT_EQ(element_type("BFloat16"), "BF16");
  EXPECT_EQ(element_type("Thirty-two wide channel vectorized row major Int8 format"), "INT8");
  EXPECT_EQ(element_type("FP4E2M1"), "FP4");
  EXPECT_EQ(element_type("Row major linear BOOL"), "BOOL");
  EXPECT_EQ(element_type("N/A due to dynamic shapes"), "");
}

TEST(Readers, BytesOfBoolAndLongBfloat16AreNotZero) {
  EXPECT_EQ(tensor_bytes({2, 3}, "BOOL", "Row major linear BOOL"), 6);
  EXPECT_EQ(tensor_bytes({2, 3}, "BF16", "Row major linear BFloat16 format"), 12);
  EXPECT_EQ(tensor_bytes({3}, "INT4", ""), 2);
  EXPECT_EQ(tensor_bytes({1, 3, 2, 2}, "INT8", "Thirty-two wide channel vectorized row major Int8 format"),
            128);
  EXPECT_EQ(tensor_bytes({1, 3, 2, 2}, "FP16", "Channel major FP16 format where channel % 8 == 0"), 64);
  EXPECT_EQ(tensor_bytes({-1, 3}, "FP32", ""), std::nullopt);
  EXPECT_EQ(tensor_bytes({2}, "", "who knows"), std::nullopt);
  EXPECT_EQ(tensor_bytes({1ll << 40, 1ll << 40}, "FP32", ""), std::nullopt);
}

TEST(Readers, NodesOfMetadataAndOfNames) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(metadata_origins("[ONNX Layer: a]\x1e[ONNX Layer: b[0]]\x1f[ONNX Layer: a]"),
            (Names{"a", "b[0]"}));
  EXPECT_EQ(metadata_origins(""), Names{});
  EXPECT_EQ(name_origins("Conv_0 + Relu_1"), (Names{"Conv_0", "Relu_1"}));
  EXPECT_EQ(name_origins("PWN(PWN(Sigmoid_2), Mul_3)"), (Names{"Sigmoid_2", "Mul_3"}));
  EXPECT_EQ(name_origins("Reformatting CopyNode for Input Tensor 0 to Conv_0"), Names{});
  EXPECT_EQ(name_origins("{ForeignNode[a...b]}"), Names{});
}

TEST(Readers, ShapeProfilesWithMoreThanOneDigit) {
  EXPECT_EQ(shape_profile_of("conv"), 0);
  EXPECT_EQ(shape_profile_of("conv [profile 1]"), 1);
  EXPECT_EQ(shape_profile_of("conv [profile 12]"), 12);
  EXPECT_EQ(shape_profile_of("conv [profile x]"), 0);
}

TEST(Readers, UnknownKeysOfLayersAreKept) {
  const auto layers = read_layers(file(
      "l.json",
      R"({"Layers": [{"Name": "a", "LayerType": "T", "Inputs": [], "Outputs": [], "Odd": {"x": [1]}}], "Bindings": []})"));
  EXPECT_EQ(layers.layers[0].attributes->at("Odd")["x"][0], 1);
  EXPECT_EQ(layers.layers[0].type, "T");
}

TEST(Readers, Release11SplitsFormatAndType) {
  const auto layers = read_layers(file(
      "l.json",
      R"j({"Layers": [{"Name": "a", "LayerType": "T", "Inputs": [{"Name": "x", "Dimensions": [2], "Format": "Row major linear FP16 format (kLINEAR)", "Datatype": "Half"}], "Outputs": []}],
    "I/O Tensors": [{"Name": "x", "IOMode": "Input", "DataType": "Half", "Dimensions": [2], "ProfileInfo": [{"MinShape": [1], "OptShape": [2], "MaxShape": [4], "Format": "f"}]}]})j"));
  EXPECT_EQ(layers.dialect, "tensorrt-11");
  EXPECT_EQ(layers.layers[0].inputs[0].bytes, 4);
  EXPECT_EQ(layers.bindings[0].io, "input");
  EXPECT_EQ(layers.bindings[0].profiles[0].max, (Shape{4}));
}

TEST(Readers, NamesAloneGiveATable) {
  const auto layers =
      read_layers(file("l.json", R"({"Layers": ["Conv_0 + Relu_1", "fc"], "Bindings": ["x"]})"));
  EXPECT_TRUE(layers.names_only);
  EXPECT_EQ(layers.dialect, "names-only");
  EXPECT_EQ(layers.layers[0].origins.size(), 2u);
}

TEST(Readers, RawControlCharactersAreEscaped) {
  const InputFile raw = file("l.json",
                             "{\"Layers\": [{\"Name\": \"a\x1e"
                             "b\", \"LayerType\": \"T\", \"Inputs\": [], \"Outputs\": []}]}");
  EXPECT_TRUE(raw.repaired);
  EXPECT_EQ(read_layers(raw).layers[0].name, "a+b");
}

TEST(Readers, ProfileRecordsMayHaveAnyKeys) {
  const auto profile = read_profile(file(
      "p.json",
      R"([{"count": 3}, {"name": "a", "timeMs": 6, "averageMs": 2, "percentage": 100, "minMs": 1.5, "more": 1}, {"name": "b", "timeMs": 3}])"));
  EXPECT_EQ(profile.iterations, 3);
  ASSERT_EQ(profile.records.size(), 2u);
  EXPECT_EQ(profile.records[0].time.min_ms, 1.5);
  EXPECT_EQ(profile.records[1].time.average_ms, 1);  // total over count
}

TEST(Readers, LogsKeepWholeValues) {
  const auto log = read_log(file(
      "t.log",
      "&&&& RUNNING TensorRT.trtexec\n[11/21/2026-13:33:28] [I] === Device Information ===\n"
      "[11/21/2026-13:33:28] [I] Device 0: \"A\" UUID: GPU-12:34\n[11/21/2026-13:33:28] [W] a warning: here\n"
      "[11/21/2026-13:33:28] [I] Selected Device: A\n[11/21/2026-13:33:28] [I] \n"
      "[I] === Performance summary ===\n[I] Throughput: 507.4 qps\n"
      "[I] Latency: min = 1 ms, max = 4 ms, mean = 2 ms, median = 1.5 ms, percentile(99%) = 3.5 ms\n"));
  const Texts* device = log.find("Device Information");
  ASSERT_NE(device, nullptr);
  EXPECT_EQ((*device)[0], (std::pair<std::string, std::string>{"Device 0", "\"A\" UUID: GPU-12:34"}));
  EXPECT_EQ(device->size(), 2u);
  const auto series = read_series_text((*log.find("Performance summary"))[1].second);
  ASSERT_TRUE(series);
  EXPECT_EQ(series->median_ms, 1.5);
  EXPECT_EQ(series->p99_ms, 3.5);
  EXPECT_FALSE(series->p90_ms);
}

TEST(Readers, MetadataFilesGiveWhatTheirLogsGave) {
  const auto log = read_log(file(
      "m.json",
      R"({"performance_summary": {"Throughput": 50.5, "Latency": [1, 4, 2, 1.5, 3.5]}, "device_information": {"Selected Device": "A"}})"));
  const Texts& summary = *log.find("Performance summary");
  EXPECT_EQ(leading_number(summary[0].second), 50.5);
  EXPECT_EQ(read_series_text(summary[1].second)->mean_ms, 2);
}

struct BadFile {
  const char *name, *text, *expected;
};
TEST(Readers, DamagedFilesAreOneErrorWithFileAndField) {
  const BadFile files[] = {
      {"a.json", "", "a.json: the file is empty"},
      {"a.json", "{\"Layers\": [", "a.json:1:13: not valid JSON"},
      {"a.json", "hello", "a.json: neither JSON nor a log"},
      {"a.json", "{\"x\": 1}", "a.json: an object with the keys x is none of the files that explore reads"},
      {"a.json", "[]", "a.json: an empty list"},
      {"a.json", "[{\"odd\": 1}]", "a.json: a list whose items have none of the keys"},
      {"a.json", "{\"schema\": \"lathe-analysis\"}", "a.json: this is an analysis"},
      {"a.json", "{\"Layers\": []}",
       "a.json: Layers is empty: the engine was built with --profilingVerbosity=none"},
      {"a.json", "{\"Layers\": 3}", "a.json: Layers: expected a list, found a number (3)"},
      {"a.json", "{\"Layers\": [{\"LayerType\": \"T\"}]}", "a.json: Layers[0]: the key \"Name\" is missing"},
      {"a.json", "{\"Layers\": [{\"Name\": 7, \"LayerType\": \"T\"}]}",
       "a.json: Layers[0].Name: expected a string, found a number (7)"},
      {"a.json",
       "{\"Layers\": [{\"Name\": \"n\", \"LayerType\": \"T\", \"Inputs\": [{\"Name\": \"x\", \"Dimensions\": "
       "[\"N\", 3]}]}]}",
       "a.json: Layers[0].Inputs[0].Dimensions: expected a list of integers"},
      {"a.json", "{\"Layers\": [{\"Name\": \"n\", \"LayerType\": \"T\", \"Weights\": 4}]}",
       "a.json: Layers[0].Weights: expected an object {Type, Count}, found a number (4)"},
      {"p.json", "[{\"count\": 1}]", "p.json: no layer has a time"},
      {"p.json", "[{\"name\": \"a\", \"averageMs\": \"x\"}]",
       "p.json: [0].averageMs: expected a number, found a string"},
      {"p.json", "[{\"name\": \"a\", \"averageMs\": -1}]",
       "p.json: [0].averageMs: expected a time, which is not negative"},
      {"p.json", "[{\"name\": \"a\"}]", "p.json: [0]: the key \"averageMs\" is missing"},
      {"t.json", "[{\"latencyMs\": null}]", "t.json: [0].latencyMs: expected a number, found null"},
  };
  for (const auto& [name, text, expected] : files) {
    const std::string said = message([&] {
      const InputFile input = recognise_file(name, text);
      if (input.kind == FileKind::Layers) read_layers(input);
      if (input.kind == FileKind::Profile) read_profile(input);
      if (input.kind == FileKind::Times) read_times(input);
    });
    EXPECT_NE(said.find(expected), std::string::npos) << text << "\n  said: " << said;
  }
}

TEST(Readers, HardwareReadingsMayMissWhatTheDeviceDoesNotTell) {
  const auto file = read_hardware(recognise_file(
      "h.json",
      R"({"schema": "lathe-hardware", "text": "2 readings", "samples": [{"at_ms": 0, "core_mhz": 1410, "power_w": null},)"
      R"({"at_ms": 100.5, "throttled": true}]})"));
  EXPECT_EQ(file.text, "2 readings");
  ASSERT_EQ(file.samples.size(), 2u);
  EXPECT_EQ(file.samples[0].core_mhz, 1410);
  EXPECT_FALSE(file.samples[0].power_w || file.samples[0].throttled);
  EXPECT_EQ(file.samples[1].throttled, true);
  EXPECT_THROW(
      read_hardware(recognise_file("h.json", R"({"schema": "lathe-hardware", "text": "", "samples": [{}]})")),
      Error);
}

}  // namespace
}  // namespace lathe::explorer
