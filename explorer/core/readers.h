// SPDX-License-Identifier: Apache-2.0
//
// Readers of every file that tells something of an engine: layer information of TensorRT 8 to 11 and ours,
// profiles, times, trtexec's logs and what others made of them, accuracy. Which one a file is, its content
// tells, not its name. A reader takes what it knows, keeps what it does not, and throws one Input error with
// file and field for what contradicts its own form.
#pragma once

#include <string>
#include <vector>

#include "explorer/core/json_at.h"
#include "explorer/core/model.h"

namespace lathe::explorer {

enum class FileKind { Layers, Profile, Times, Log, Metadata, Accuracy, Hardware, Model, LayerRuns };

struct InputFile {
  std::string name, text;
  FileKind kind = FileKind::Layers;
  JsonValue json;         // null for a log
  bool repaired = false;  // raw control characters were escaped
};

// Parses and recognises. Throws Input for what is none of the kinds.
InputFile recognise_file(std::string name, std::string text);
InputFile load_file(const std::string& path);

// --- layer information
struct LayerFile {
  std::string dialect;
  bool names_only = false;
  std::vector<Layer> layers;  // constants and no-ops included, of all shape profiles
  std::vector<Binding> bindings;
  std::string producer, settings;  // "" when the file does not say
  std::optional<int64_t> arena_bytes;
};
LayerFile read_layers(const InputFile& file);
// The [profile N] suffix of a name; 0 without one.
int shape_profile_of(const std::string& name);
// ONNX nodes of a Metadata text, and those that a layer's name tells where there is none.
std::vector<std::string> metadata_origins(const std::string& metadata);
std::vector<std::string> name_origins(const std::string& layer_name);
// U+001E and U+001F become '+', as in the explorer that people know.
std::string clean_name(std::string name);

// --- profile
struct ProfileRecord {
  std::string name;
  LayerTime time;
};
struct ProfileFile {
  std::optional<int64_t> iterations;
  std::vector<ProfileRecord> records;
  std::vector<std::string> notes;
};
ProfileFile read_profile(const InputFile& file);

// --- times of layers, run by run
struct LayerRunsFile {
  int64_t count = 0;
  std::vector<std::string> layers;
  std::vector<int64_t> numbers;
  std::vector<std::vector<double>> times_ms;  // by run, then by layer
};
LayerRunsFile read_layer_runs(const InputFile& file);

// --- times
Iterations read_times(const InputFile& file);

// --- logs, and the two metadata files that are made from them
struct LogFile {
  // Section title ("Build Options") -> keys and whole values.
  std::vector<std::pair<std::string, Texts>> sections;
  std::string date;  // of its first line that has one: "2026-11-24 21:03"
  const Texts* find(std::string_view title) const;
};
LogFile read_log(const InputFile& file);
// "min = 1.2 ms, max = ..., median = ..., percentile(99%) = ..."; nothing when the text is no such list.
std::optional<Series> read_series_text(const std::string& text);
// The number that a value starts with: "507.4 qps" is 507.4.
std::optional<double> leading_number(const std::string& text);

// --- accuracy: `lathe diff --json`
struct AccuracyRecord {
  std::string layer;
  LayerError error;
};
std::vector<AccuracyRecord> read_accuracy(const InputFile& file);

// --- clocks, power and temperature: what `lathe process` writes while it profiles
struct HardwareFile {
  std::string text;
  std::vector<HardwareSample> samples;
};
HardwareFile read_hardware(const InputFile& file);

// --- the ONNX model: `lathe inspect --graph`
OnnxModel read_model(const InputFile& file);

}  // namespace lathe::explorer
