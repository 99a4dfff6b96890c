// SPDX-License-Identifier: Apache-2.0
//
// Everything that is known of an engine, as data: what the readers fill, the analysis extends, and
// analysis_json.h writes. The fields are those of docs/schema/analysis.schema.json, which says what each
// means; an empty optional is null there: not known, never 0. Layers, tensors and rows refer to each other by
// index.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_value.h"

namespace lathe::explorer {

using Shape = std::vector<int64_t>;
using Texts = std::vector<std::pair<std::string, std::string>>;  // in file order

// The value of the first text of this name, "" when there is none.
inline std::string value_of(const Texts& texts, std::string_view key) {
  for (const auto& [name, value] : texts) {
    if (name == key) return value;
  }
  return "";
}

struct Note {
  std::string severity;  // "info", "warning", "error"
  std::string text;
  std::vector<int> layers;
};

struct Source {
  std::string role, file, dialect;
};

struct TensorUse {
  std::string name;  // as in the file; `tensor` is set once all layers are known
  int tensor = -1;
  Shape shape;
  std::string type, format;
  std::optional<int64_t> bytes;
  bool is_weights = false;
  // Where the file says that it lies: in another tensor's memory, "" in the arena; no offset when it does not
  // say.
  std::string inside;
  std::optional<int64_t> offset;
};

struct LayerOrigin {
  std::string name, op_type;
  std::optional<double> flops;
  std::optional<int64_t> bytes, saved_bytes;
};

struct LayerTime {
  double average_ms = 0;
  std::optional<double> median_ms, total_ms, percent, min_ms, p99_ms, noise_percent;
  double start_ms = 0;
};

struct Roofline {
  std::string verdict = "unknown", precision;
  std::optional<double> roof_ms, percent_of_roof, flops_per_s, bytes_per_s, recoverable_ms;
};

struct LayerError {
  std::optional<double> local, accumulated, limit;
  std::string text;
};

// What the builder timed for a layer before it chose, fastest first, and what it could not use.
struct TimedTactic {
  std::string name, runner, types;
  std::optional<double> ms;  // empty: not timed
  bool chosen = false;
};
struct RefusedTactic {
  std::string name, runner, reason;
};
struct Tuning {
  std::vector<TimedTactic> timed;
  std::vector<RefusedTactic> refused;
  int64_t left_out = 0;  // entries that the file does not list, so that it stays small
};

struct Layer {
  int index = 0;
  int file_position = 0;  // in the layer file, which may hold constants, no-ops and other shape profiles
  std::string name;
  std::string label;     // its short name, the same in every view
  std::string fallback;  // why it runs on the slow reference implementation; "": it does not
  std::optional<Tuning> tuning;
  std::string type, runner, tactic, tactic_id;
  std::string precision, input_precision, output_precision;
  std::string kind = "compute";
  std::vector<LayerOrigin> origins;
  bool origins_from_name = false;  // taken from the layer's name, not from metadata
  std::vector<TensorUse> inputs, outputs;
  std::optional<LayerTime> time;
  std::vector<double> runs_ms;  // of the runs that LayerRuns lists
  std::optional<double> flops;
  std::string flops_source = "none";
  std::optional<int64_t> bytes_read, bytes_written;
  int64_t weights_bytes = 0;
  Roofline roofline;
  int64_t stream = 0;
  std::optional<LayerError> error;
  JsonValue attributes = JsonValue::object();

  std::optional<double> bytes() const {
    if (!bytes_read || !bytes_written) return {};
    return static_cast<double>(*bytes_read) + static_cast<double>(*bytes_written);
  }
  std::optional<double> average_ms() const { return time ? std::optional(time->average_ms) : std::nullopt; }
  bool is_overhead() const { return kind == "reformat" || kind == "copy" || kind == "cast"; }
};

struct Tensor {
  std::string name;
  Shape shape;
  std::string type, format, role = "activation";
  std::optional<int64_t> bytes;
  std::vector<int> producers, consumers;
  int first = 0, last = 0;      // of one that others lie in: theirs, too
  std::optional<int> alias_of;  // in whose memory it lies; that one is no alias
  std::optional<int64_t> offset;
};

struct Edge {
  std::optional<int> from, to;
  int tensor = 0;
};

struct ShapeProfile {
  Shape min, opt, max;
};

struct Binding {
  std::string name, io = "unknown";
  std::optional<int> tensor;
  Shape shape;
  std::string type, format;
  std::optional<int64_t> bytes;
  std::vector<ShapeProfile> profiles;
};

struct Series {
  size_t count = 0;
  double min_ms = 0, max_ms = 0, mean_ms = 0, median_ms = 0;
  std::optional<double> p90_ms, p95_ms, p99_ms, variation_percent;
};

struct GapPart {
  std::string name;
  double ms = 0;
  std::string text;
};

struct Statistics {
  int layer_count = 0;
  std::optional<int64_t> profile_iterations;
  std::optional<double> layer_sum_ms, layer_median_sum_ms, engine_latency_ms, gap_ms, throughput_qps;
  std::optional<double> gap_median_ms;  // the same of medians, which disturbed runs hardly move
  std::string gap_text;                 // in words
  std::string engine_latency_source;
  std::vector<GapPart> gap_parts;
  std::optional<Series> latency, compute, h2d, d2h, enqueue;
  std::optional<double> flops, bytes, overhead_ms;
  int64_t weights_bytes = 0, activation_bytes = 0, peak_memory_bytes = 0;
  Texts summary;
};

struct Device {
  std::string name, kind = "unknown";
  Texts properties;
};

struct HardwareSample {
  double at_ms = 0;  // since the monitor started
  std::optional<double> core_mhz, memory_mhz, temperature_c, power_w;
  std::optional<double> others_percent;  // of the processors, that other programs had since the sample before
  std::optional<bool> throttled;
};

// The roof: peaks by precision ("FP32"), of memory, and the time below which starting a layer is what counts.
struct Peaks {
  std::string source = "none";  // "given", "measured", "estimated", "none"
  std::map<std::string, double> flops_per_s;
  std::optional<double> bytes_per_s;
  double launch_ms = 0.005;
  std::vector<std::string> unstable;  // "FP32", "memory": measured, but never twice alike

  bool is_stable(const std::string& what) const {
    return std::find(unstable.begin(), unstable.end(), what) == unstable.end();
  }
};

// Can the times be used? Others at work, or runs that differ much from each other, make them those of the
// machine.
struct Measurement {
  bool usable = true;
  std::vector<std::string> reasons;  // why not
  std::string text;                  // one sentence for the top of a report, "" when there is nothing to say
};

// What ran where and when, in words; "" for what the files do not say.
struct RunContext {
  std::string device, threads, shapes, precision, date, version;
};

// Single runs of the profile, so that what varies can be seen; their times are the layers' runs_ms.
struct LayerRuns {
  int64_t count = 0;             // runs of the profile
  std::vector<int64_t> numbers;  // which of them are kept
};

struct Group {
  std::string key;
  std::optional<double> time_ms, percent, flops, bytes;
  std::vector<int> layers;
};

struct Groups {
  std::vector<Group> by_type, by_precision, by_output_precision, by_tactic, by_stream;
};

struct Memory {
  std::vector<int64_t> steps;
  int64_t peak_bytes = 0, weights_bytes = 0;
  std::optional<int> peak_layer;
  std::vector<int> peak_tensors;
  std::optional<int64_t> arena_bytes;  // what the engine allocates, when the file says
  std::string note;
};

struct Iterations {
  std::vector<double> latency_ms, compute_ms, start_ms, h2d_ms, d2h_ms, enqueue_ms;
};

struct Finding {
  std::string id, title, severity = "low", confidence = "medium";
  std::vector<std::string> evidence;
  std::vector<int> layers;
  std::optional<double> gain_ms;
  std::string gain_basis, action, command;
};

// --- the ONNX model beside the engine
struct OnnxTensor {
  std::string name, type;
  JsonValue shape;  // a list of numbers and of names, null: not known
  std::optional<int64_t> bytes;
  std::string role = "value";  // "input", "output", "initializer"
};

struct OnnxNode {
  std::string name, op_type, domain;
  std::vector<int> inputs, outputs;  // tensors; -1 for an operand that is left out
  JsonValue attributes = JsonValue::object();
  bool expands = false;     // other nodes stand for it: a function's call, control flow
  std::vector<int> layers;  // those that run it
  bool by_tensors = false;  // no layer names it; it lies between a layer's inputs and outputs
  std::string fate = "unknown", why;
};

struct OnnxModel {
  std::string file, name, producer, note;
  int64_t opset = 0;
  std::vector<OnnxNode> nodes;  // in the file's order
  std::vector<OnnxTensor> tensors;
  std::vector<std::pair<std::string, int>> fates;  // how many nodes of each, those that occur
  std::vector<int> own_layers;                     // layers of the engine that run no node: reformats, copies
  std::string text;                                // what became of the nodes, in a sentence
};

struct EngineData {
  std::string name;
  std::vector<Source> sources;
  std::vector<Note> notes;
  std::string model_name, model_file, engine_file;
  std::string build_settings;  // "level 3, fp32+bf16", when the file says
  std::string producer, date;  // "Lathe 0.2.0", "2026-11-24 21:03", when files say
  Texts model_options, build_options, inference_options;
  Device device;
  std::string hardware_text = "No clocks, temperature or power were recorded.";
  std::vector<HardwareSample> hardware_samples;
  Measurement measurement;
  RunContext context;
  Peaks peaks;
  Statistics statistics;
  std::vector<Binding> bindings;
  std::vector<Layer> layers;
  std::vector<Tensor> tensors;
  std::vector<Edge> edges;
  Groups groups;
  Memory memory;
  std::optional<Iterations> iterations;
  std::optional<LayerRuns> layer_runs;
  std::vector<Finding> findings;
  std::optional<OnnxModel> onnx;
  bool names_only = false;  // the layer file has names and nothing else

  void note(std::string severity, std::string text, std::vector<int> about = {}) {
    notes.push_back({std::move(severity), std::move(text), std::move(about)});
  }
};

}  // namespace lathe::explorer
