// SPDX-License-Identifier: Apache-2.0
//
// Flags of the run and of its reports.
#include <fmt/format.h>

#include "arguments/arguments.h"
#include "arguments/flag.h"

namespace lathe::cli {
namespace {

using O = Options;
using S = const std::string;

// Milliseconds or seconds, not negative.
float time_value(std::string_view flag, const std::string& text) {
  const float value = parse_float(flag, text);
  if (value < 0) throw_input_error(fmt::format("{}={} must not be negative", flag, text));
  return value;
}

constexpr std::string_view kDebugTensors =
    "needs debug tensors; `lathe diff model.onnx model.engine` compares every layer's output";
constexpr std::string_view kAccuracy =
    "needs the accuracy check of TensorRT 11; `lathe diff model.onnx model.engine` checks "
    "every layer, --exportOutput writes the outputs";

void refuse_accuracy(O& o, S&) {
  o.refuse("--loadRefOutputs/--refPair/--accuracy...", kAccuracy);
}

std::vector<Flag> loop_flags() {
  return {
      {Section::Inference, "--shapes", "<spec>",
       "input shapes to run; without build shapes also the shapes to build for",
       [](O& o, S& v) { o.inference.shapes = parse_shapes("--shapes", v); }},
      {Section::Inference, "--useProfile", "<n>", "optimization profile to run (default 0)",
       [](O& o, S& v) { o.inference.profile = bounded_int("--useProfile", v, 0, 1 << 20); }},
      {Section::Inference, "--loadInputs", "<spec>",
       "input values from files, as in --loadInputs=input:x.bin (raw), input:x.npy, input:all.npz, "
       "input:cat.jpg; otherwise random values",
       [](O& o, S& v) {
         for (const auto& item : split_list(v)) o.inference.inputs.push_back(parse_named_value(item));
       }},
      {Section::Inference, "--imagePreprocess", "imagenet|unit|signed|pixels",
       "what pictures of --loadInputs become: the normalised middle (default), 0..1, -1..1, 0..255",
       [](O& o, S& v) {
         o.inference.preprocess = one_of("imagePreprocess", v, {"imagenet", "unit", "signed", "pixels"});
       }},
      {Section::Inference, "--iterations", "<n>", "measure at least n queries (default 10)",
       [](O& o, S& v) { o.inference.iterations = bounded_int("--iterations", v, 0, 1 << 30); }},
      {Section::Inference, "--warmUp", "<ms>", "warm up this long before measuring (default 200)",
       [](O& o, S& v) { o.inference.warm_up_ms = time_value("--warmUp", v); }},
      {Section::Inference, "--duration", "<s>",
       "measure at least this long (default 3; 0: --iterations alone; -1: until Ctrl-C)",
       [](O& o, S& v) {
         o.inference.duration_s = parse_float("--duration", v);
         if (o.inference.duration_s < 0 && o.inference.duration_s != -1) {
           throw_input_error(fmt::format("--duration={} must be -1 (endless), 0 or a number of seconds", v));
         }
       }},
      {Section::Inference, "--sleepTime", "<ms>", "wait this long before the first query",
       [](O& o, S& v) { o.inference.sleep_ms = time_value("--sleepTime", v); }},
      {Section::Inference, "--idleTime", "<ms>", "sleep this long between queries",
       [](O& o, S& v) { o.inference.idle_ms = time_value("--idleTime", v); }},
      {Section::Inference, "--infStreams", "<n>", "n contexts in parallel (default 1)",
       [](O& o, S& v) { o.inference.streams = bounded_int("--infStreams", v, 1, 1024); }},
      {Section::Inference, "--streams", "<n>", "",
       [](O& o, S& v) {
         o.warn("--streams flag has been deprecated, use --infStreams flag instead.");
         o.inference.streams = bounded_int("--streams", v, 1, 1024);
       }},
      {Section::Inference, "--threads", "", "one host thread per stream",
       [](O& o, S&) { o.inference.threads = true; }},
      {Section::Inference, "--exposeDMA", "", "do not overlap copies and layers",
       [](O& o, S&) { o.inference.overlap = false; }},
      {Section::Inference, "--noDataTransfers", "", "copy nothing between host and device while measuring",
       [](O& o, S&) { o.inference.transfers = false; }},
      {Section::Inference, "--includeDataTransfers", "", "", [](O& o, S&) { o.inference.transfers = true; }},
      {Section::Inference, "--useManagedMemory", "", "",
       [](O& o, S&) {
         o.inference.managed_memory = true;
         warn_of_no_effect(o, "--useManagedMemory", "bindings are host memory on this device");
       }},
      {Section::Inference, "--useSpinWait", "",
       "spin while waiting for the device (a CPU has nothing to wait for)",
       [](O& o, S&) { o.inference.spin = true; }},
      {Section::Inference, "--noSpinWait", "", "", [](O& o, S&) { o.inference.spin = false; }},
      {Section::Inference, "--useCudaGraph", "",
       "record the launches once and replay them (no effect on a CPU)",
       [](O& o, S&) { o.inference.graph = true; }},
      {Section::Inference, "--noCudaGraph", "", "", [](O& o, S&) { o.inference.graph = false; }},
      {Section::Inference, "--separateProfileRun", "",
       "time layers in a second run, so that the first stays undisturbed",
       [](O& o, S&) { o.inference.separate_profile_run = true; }},
      {Section::Inference, "--timeDeserialize", "", "time loading the engine, then stop",
       [](O& o, S&) { o.inference.time_deserialize = true; }},
  };
}

std::vector<Flag> other_inference_flags() {
  return {
      {Section::Inference, "--timeRefit", "", "",
       [](O& o, S&) { o.refuse("--timeRefit", "needs refittable engines"); }},
      {Section::Inference, "--persistentCacheRatio", "<f>", "",
       [](O& o, S& v) {
         o.inference.persistent_cache_ratio = parse_float("--persistentCacheRatio", v);
         if (o.inference.persistent_cache_ratio < 0 || o.inference.persistent_cache_ratio > 1) {
           throw_input_error(fmt::format("--persistentCacheRatio={} must be between 0 and 1", v));
         }
         if (o.inference.persistent_cache_ratio > 0)
           warn_of_no_effect(o, "--persistentCacheRatio", "it sets aside L2 cache of a GPU");
       }},
      {Section::Inference, "--allocationStrategy", "static|profile|runtime", "",
       [](O& o, S& v) {
         o.inference.allocation_strategy = one_of("allocationStrategy", v, {"static", "profile", "runtime"});
         if (v != "static")
           warn_of_no_effect(o, "--allocationStrategy", "a context allocates for its own profile");
       }},
      {Section::Inference, "--weightStreamingBudget", "<spec>", "",
       [](O& o, S&) {
         if (!o.build.allow_weight_streaming) {
           throw_input_error(
               "The weight streaming budget can only be set with --allowWeightStreaming specified.");
         }
       }},
      {Section::Inference, "--saveDebugTensors", "<spec>", "",
       [](O& o, S&) { o.refuse("--saveDebugTensors", kDebugTensors); }},
      {Section::Inference, "--saveAllDebugTensors", "<formats>", "",
       [](O& o, S&) { o.refuse("--saveAllDebugTensors", kDebugTensors); }},
      {Section::Inference, "--loadRefOutputs", "<spec>", "", refuse_accuracy, true},
      {Section::Inference, "--refPair", "<n>", "", refuse_accuracy, true},
      {Section::Inference, "--accuracyAlgorithm", "<name>", "", refuse_accuracy},
      {Section::Inference, "--accuracyThreshold", "<f>", "", refuse_accuracy},
      {Section::Inference, "--atol", "<f>", "", refuse_accuracy},
      {Section::Inference, "--rtol", "<f>", "", refuse_accuracy},
      {Section::Inference, "--greenContext", "<spec>", "",
       [](O& o, S&) { o.refuse("--greenContext", "needs a CUDA 13 device; on a CPU use --cpuThreads=N"); },
       true},
  };
}

}  // namespace

std::vector<Flag> inference_flags() {
  std::vector<Flag> flags = loop_flags();
  for (const auto& flag : other_inference_flags()) flags.push_back(flag);
  return flags;
}

std::vector<Flag> reporting_flags() {
  return {
      {Section::Reporting, "--verbose", "", "print what the build does, line by line",
       [](O& o, S&) { o.reporting.verbose = true; }},
      {Section::Reporting, "--avgRuns", "<n>", "queries per line of the trace (default 10)",
       [](O& o, S& v) { o.reporting.window = bounded_int("--avgRuns", v, 1, 1 << 30); }},
      {Section::Reporting, "--percentile", "<list>", "percentiles of the summary (default 90,95,99)",
       [](O& o, S& v) {
         o.reporting.percentiles.clear();
         for (const auto& item : split_list(v)) {
           const float p = parse_float("--percentile", item);
           if (p < 0 || p > 100) throw_input_error(fmt::format("Percentile {:f}is not in [0,100]", p));
           o.reporting.percentiles.push_back(p);
         }
       }},
      {Section::Reporting, "--dumpOutput", "", "print the outputs of the last query",
       [](O& o, S&) { o.reporting.dump_output = true; }},
      {Section::Reporting, "--dumpRawBindingsToFile", "",
       "write every binding to a raw file in the current directory",
       [](O& o, S&) { o.reporting.dump_raw_bindings = true; }},
      {Section::Reporting, "--dumpProfile", "", "print the time of each layer",
       [](O& o, S&) { o.reporting.dump_profile = true; }},
      {Section::Reporting, "--dumpLayerInfo", "", "print the layers of the engine",
       [](O& o, S&) { o.reporting.dump_layer_info = true; }},
      {Section::Reporting, "--dumpOptimizationProfile", "", "print the optimization profiles of the engine",
       [](O& o, S&) { o.reporting.dump_optimization_profile = true; }},
      {Section::Reporting, "--exportTimes", "<file>", "times of each query as JSON",
       [](O& o, S& v) { o.reporting.export_times = v; }},
      {Section::Reporting, "--exportOutput", "<file>", "outputs of the last query as JSON",
       [](O& o, S& v) { o.reporting.export_output = v; }},
      {Section::Reporting, "--exportProfile", "<file>", "time of each layer as JSON",
       [](O& o, S& v) { o.reporting.export_profile = v; }},
      {Section::Reporting, "--exportLayerInfo", "<file>", "layers of the engine as JSON",
       [](O& o, S& v) { o.reporting.export_layer_info = v; }},
      {Section::Reporting, "--exportSummary", "<file>",
       "throughput, latencies, device, shapes and flags of the run as JSON (Lathe's own)",
       [](O& o, S& v) { o.reporting.export_summary = v; }},
      {Section::Reporting, "--dumpRefit", "", "",
       [](O& o, S&) { o.refuse("--dumpRefit", "needs refittable engines"); }},
  };
}

}  // namespace lathe::cli
