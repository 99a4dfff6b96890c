// SPDX-License-Identifier: Apache-2.0
//
// Everything that a trtexec command line says, as plain structs with trtexec's defaults. flags_*.cpp fill
// them, banner.cpp prints them, trtexec.cpp does what they say.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arguments/values.h"
#include "base/observer.h"

namespace lathe::cli {

struct ModelOptions {
  std::string onnx;
  std::map<std::string, int64_t, std::less<>> input_lengths;  // of sequences and optionals

  bool operator==(const ModelOptions&) const = default;
};

struct BuildFlags {
  // Ranges by optimization profile; one, possibly empty, unless --profile says otherwise.
  std::vector<std::vector<NamedRange>> profiles{1};

  bool fp16 = false, bf16 = false, int8 = false, fp8 = false, int4 = false, best = false;
  bool tf32 = true, strongly_typed = false;
  std::string precision_constraints = "none";
  std::string layer_precisions, layer_output_types, layer_device_types, calibration;
  std::string sparsity = "disable";
  std::vector<IoFormat> input_formats, output_formats;
  bool direct_io = false;

  std::map<std::string, double> memory_pools;  // bytes
  int avg_timing = 8;
  int profiling_verbosity = 0;  // 0 layer names, 1 none, 2 detailed
  bool refit = false, strip_weights = false, version_compatible = false, exclude_lean_runtime = false;
  bool plugin_instance_norm = false, plugin_override = false;
  std::vector<std::string> plugins_to_serialize;
  std::string runtime = "full", lean_dll_path;
  std::string save_engine, load_engine, refit_from;
  bool skip_inference = false, safe = false, dla_standalone = false, gpu_fallback = false, restricted = false;
  std::vector<std::pair<std::string, bool>> tactic_sources, preview_features;
  bool no_builder_cache = false;
  std::string timing_cache_file;
  bool compilation_cache = true, monitor_memory = false, error_on_timing_cache_miss = false;
  int optimization_level = -1, max_tactics = -1, max_aux_streams = -1;
  bool allow_weight_streaming = false;
  std::string debug_tensors;
  bool temporary_in_memory = true, temporary_files = true;
  bool plan_version_only = false;

  // Our own.
  bool winograd = true, verify_passes = false, fail_on_fallback = false, check_numerics = false;
  bool fast_load = false;
  int batch_part = -1;  // -1: what is faster
  std::string budget;   // of accuracy; empty: none
  std::set<std::string, std::less<>> dump_after, disabled_passes;
  int stop_after = -1;
  float time_budget_seconds = -1;

  std::string timing_cache_mode() const {
    return no_builder_cache ? "disable" : timing_cache_file.empty() ? "local" : "global";
  }

  bool operator==(const BuildFlags&) const = default;
};

struct SystemFlags {
  std::string device;  // empty: not given
  int dla_core = -1;
  bool ignore_parsed_plugin_libs = false;
  std::vector<std::string> static_plugins, dynamic_plugins;  // libraries, in the order given
  bool trust_engine = false;                                 // libraries inside of an engine file are run

  // Our own.
  int cpu_threads = 0;
  std::string cpu_isa;

  bool operator==(const SystemFlags&) const = default;
};

struct InferenceFlags {
  NamedShapes shapes;
  std::vector<std::pair<std::string, std::string>> inputs;  // name, file
  bool keep_state = false;
  std::vector<std::string> state_pairs;  // "past:present"; none: by name
  std::string preprocess;                // of pictures among them; empty: by the input's type
  int iterations = 10;
  float warm_up_ms = 200, duration_s = 3, sleep_ms = 0, idle_ms = 0;
  int streams = 1;
  bool overlap = true, transfers = true, managed_memory = false, spin = false, threads = false, graph = false;
  bool time_deserialize = false, separate_profile_run = false;
  float persistent_cache_ratio = 0;
  int profile = -1;  // -1: not given
  int batch = 0;     // 8.x's implicit batch, 0: not given
  std::string allocation_strategy = "static";

  bool operator==(const InferenceFlags&) const = default;
};

struct ReportingFlags {
  bool verbose = false;
  int window = 10;
  std::vector<float> percentiles{90, 95, 99};
  bool dump_output = false, dump_raw_bindings = false, dump_profile = false, dump_layer_info = false;
  bool dump_optimization_profile = false;
  std::string export_times, export_output, export_profile, export_layer_info;
  std::string export_summary;  // our own

  bool profiles_layers() const { return dump_profile || !export_profile.empty(); }

  bool operator==(const ReportingFlags&) const = default;
};

struct Options {
  std::vector<std::string> words;  // as given
  bool help = false;
  ModelOptions model;
  BuildFlags build;
  SystemFlags system;
  InferenceFlags inference;
  ReportingFlags reporting;

  // What parsing had to say, in order; printed before the option banner.
  struct Notice {
    Severity severity;
    std::string text;
  };
  std::vector<Notice> notices;
  // Flags that are known and cannot be honoured: "--useDLACore needs ...". They end the run.
  std::vector<std::string> refusals;

  void warn(std::string text) { notices.push_back({Severity::Warning, std::move(text)}); }
  void tell(std::string text) { notices.push_back({Severity::Info, std::move(text)}); }
  void refuse(std::string_view flag, std::string_view needs) {
    refusals.push_back(std::string(flag) + " " + std::string(needs));
  }
};

// The words after the program's name. Throws Input with one line per problem, each after the first behind two
// blanks, and hints behind four.
Options parse_options(const std::vector<std::string>& words);

}  // namespace lathe::cli
