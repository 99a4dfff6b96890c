// SPDX-License-Identifier: Apache-2.0
#include "banner.h"

#include <fmt/format.h>

namespace lathe::cli {
namespace {

std::string on_off(bool value) {
  return value ? "Enabled" : "Disabled";
}

std::string pool_text(const BuildFlags& build, const std::string& pool) {
  const auto found = build.memory_pools.find(pool);
  if (found == build.memory_pools.end()) return pool + ": default";
  constexpr double kMebibyte = 1048576, kKibibyte = 1024;
  if (pool == "tacticSharedMem")
    return fmt::format("{}: {} KiB", pool, format_number(found->second / kKibibyte));
  return fmt::format("{}: {} MiB", pool, format_number(found->second / kMebibyte));
}

std::string memory_pools_text(const BuildFlags& build) {
  std::string text;
  for (const char* pool : {"workspace", "dlaSRAM", "dlaLocalDRAM", "dlaGlobalDRAM", "tacticSharedMem"}) {
    text += (text.empty() ? "" : ", ") + pool_text(build, pool);
  }
  return text;
}

std::string precision_text(const BuildFlags& build) {
  if (build.strongly_typed) return "Strongly Typed";
  std::string text = "FP32";
  if (build.fp16 || build.best) text += "+FP16";
  if (build.bf16 || build.best) text += "+BF16";
  if (build.int8 || build.best) text += "+INT8";
  if (build.fp8) text += "+FP8";
  if (build.int4) text += "+INT4";
  if (build.precision_constraints != "none")
    text += fmt::format(" ({} precision constraints)", build.precision_constraints);
  return text;
}

std::string switch_text(const std::vector<std::pair<std::string, bool>>& switches, const std::string& none) {
  const std::map<std::string, std::string> names = {
      {"CUBLAS", "cublas"},
      {"CUBLAS_LT", "cublasLt"},
      {"CUBLASLT", "cublasLt"},
      {"CUDNN", "cudnn"},
      {"EDGE_MASK_CONVOLUTIONS", "edge mask convolutions"},
      {"JIT_CONVOLUTIONS", "JIT convolutions"},
      {"aliasedPluginIO1003", "kALIASED_PLUGIN_IO_10_03"},
      {"runtimeActivationResize", "kRUNTIME_ACTIVATION_RESIZE_10_10"},
      {"profileSharing0806", "kPROFILE_SHARING_0806"}};
  std::string text;
  for (const auto& [name, on] : switches) {
    const auto found = names.find(name);
    text += fmt::format("{} [{}], ", found == names.end() ? name : found->second, on ? "ON" : "OFF");
  }
  return text.empty() ? none : text;
}

void print_io_formats(Log& log, const std::string& direction, const std::vector<IoFormat>& formats) {
  if (formats.empty()) return log.info(fmt::format("{}(s)s format: fp32:CHW", direction));
  for (const auto& format : formats) {
    // The original puts a + before every format but chw.
    std::string text = format.type.empty() ? "" : format.type + ":";
    for (const auto& name : format.formats) text += (name == "chw" ? "" : "+") + name;
    log.info(fmt::format("{}(s): {}", direction, text));
  }
}

void print_build_shapes(Log& log, const BuildFlags& build) {
  bool any = false;
  for (size_t profile = 0; profile < build.profiles.size(); ++profile) {
    for (const auto& [name, range] : build.profiles[profile]) {
      log.info(fmt::format("Input build shape (profile {}): {}={}+{}+{}", profile, name, dims_text(range.min),
                           dims_text(range.opt), dims_text(range.max)));
      any = true;
    }
  }
  if (!any) log.info("Input build shapes: model");
}

void print_build(Log& log, const BuildFlags& build) {
  const auto line = [&](const std::string& key, const std::string& value) { log.info(key + ": " + value); };
  const auto allow = [](bool value) { return value ? "allow" : "deny"; };
  const std::map<std::string, std::string> sparsity = {
      {"disable", "Disabled"}, {"enable", "Enabled"}, {"force", "Forced"}};
  log.info("=== Build Options ===");
  line("Memory Pools", memory_pools_text(build));
  line("avgTiming", std::to_string(build.avg_timing));
  line("Precision", precision_text(build));
  line("LayerPrecisions", build.layer_precisions);
  line("Layer Device Types", build.layer_device_types);
  line("Calibration", build.int8 && build.calibration.empty() ? "Dynamic" : build.calibration);
  line("Refit", on_off(build.refit));
  line("Strip weights", on_off(build.strip_weights));
  line("Version Compatible", on_off(build.version_compatible));
  line("ONNX Plugin InstanceNorm", on_off(build.plugin_instance_norm));
  line("TensorRT runtime", build.runtime);
  line("Lean DLL Path", build.lean_dll_path);
  line("Tempfile Controls", fmt::format("{{ in_memory: {}, temporary: {} }}",
                                        allow(build.temporary_in_memory), allow(build.temporary_files)));
  line("Exclude Lean Runtime", on_off(build.exclude_lean_runtime));
  line("Sparsity", sparsity.at(build.sparsity));
  line("Safe mode", on_off(build.safe));
  line("Build DLA standalone loadable", on_off(build.dla_standalone));
  line("Allow GPU fallback for DLA", on_off(build.gpu_fallback));
  line("DirectIO mode", on_off(build.direct_io));
  line("Restricted mode", on_off(build.restricted));
  line("Skip inference", on_off(build.skip_inference));
  line("Save engine", build.save_engine);
  line("Load engine", build.load_engine);
  line("Profiling verbosity", std::to_string(build.profiling_verbosity));
  line("Tactic sources", switch_text(build.tactic_sources, "Using default tactic sources"));
  line("timingCacheMode", build.timing_cache_mode());
  line("timingCacheFile", build.timing_cache_file);
  line("Enable Compilation Cache", on_off(build.compilation_cache));
  line("errorOnTimingCacheMiss", on_off(build.error_on_timing_cache_miss));
  line("Preview Features", switch_text(build.preview_features, "Use default preview flags."));
  line("MaxAuxStreams", std::to_string(build.max_aux_streams));
  line("BuilderOptimizationLevel", std::to_string(build.optimization_level));
  line("MaxTactics", std::to_string(build.max_tactics));
  line("Calibration Profile Index", "0");
  line("Weight Streaming", on_off(build.allow_weight_streaming));
  line("Runtime Platform", "Same As Build");
  line("Debug Tensors", build.debug_tensors);
  print_io_formats(log, "Input", build.input_formats);
  print_io_formats(log, "Output", build.output_formats);
  print_build_shapes(log, build);
  log.info("Input calibration shapes: model");
}

void print_libraries(Log& log, std::string line, const std::vector<std::string>& libraries) {
  for (const std::string& library : libraries) line += " " + library;
  log.info(line);
}

void print_system(Log& log, const SystemFlags& system, const BuildFlags& build) {
  log.info("=== System Options ===");
  log.info("Device: " + (system.device.empty() ? "auto" : system.device));
  log.info("DLACore: " + (system.dla_core < 0 ? "" : std::to_string(system.dla_core)));
  print_libraries(log, "Plugins:", system.static_plugins);
  print_libraries(log, "setPluginsToSerialize:", build.plugins_to_serialize);
  print_libraries(log, "dynamicPlugins:", system.dynamic_plugins);
  log.info(fmt::format("ignoreParsedPluginLibs: {}", system.ignore_parsed_plugin_libs ? 1 : 0));
  log.info("");
}

void print_inference(Log& log, const InferenceFlags& inference, int verbosity) {
  const auto line = [&](const std::string& key, const std::string& value) { log.info(key + ": " + value); };
  log.info("=== Inference Options ===");
  line("Batch", "Explicit");
  if (inference.shapes.empty()) line("Input inference shapes", "model");
  for (const auto& [name, extents] : inference.shapes) {
    log.info(fmt::format("Input inference shape : {}={}", name, dims_text(extents)));
  }
  line("Iterations", std::to_string(inference.iterations));
  line("Duration", fmt::format("{}s (+ {}ms warm up)", format_number(inference.duration_s),
                               format_number(inference.warm_up_ms)));
  line("Sleep time", format_number(inference.sleep_ms) + "ms");
  line("Idle time", format_number(inference.idle_ms) + "ms");
  line("Inference Streams", std::to_string(inference.streams));
  line("ExposeDMA", on_off(!inference.overlap));
  line("Data transfers", on_off(inference.transfers));
  line("Spin-wait", on_off(inference.spin));
  line("Multithreading", on_off(inference.threads));
  line("CUDA Graph", on_off(inference.graph));
  line("Separate profiling", on_off(inference.separate_profile_run));
  if (inference.keep_state)
    line("Keep state", inference.state_pairs.empty()
                           ? "by name"
                           : fmt::format("{}", fmt::join(inference.state_pairs, ",")));
  line("Time Deserialize", on_off(inference.time_deserialize));
  line("Time Refit", "Disabled");
  line("NVTX verbosity", std::to_string(verbosity));
  line("Persistent Cache Ratio", format_number(inference.persistent_cache_ratio));
  line("Optimization Profile Index", std::to_string(std::max(inference.profile, 0)));
  line("Weight Streaming Budget", "100.000000%");
  log.info("Inputs:");
  for (const auto& [name, file] : inference.inputs) log.info(name + "<-" + file);
  log.info("Debug Tensor Save Destinations:");
}

void print_reporting(Log& log, const ReportingFlags& reporting) {
  std::string percentiles;
  for (const float p : reporting.percentiles)
    percentiles += (percentiles.empty() ? "" : ",") + format_number(p);
  log.info("=== Reporting Options ===");
  log.info("Verbose: " + on_off(reporting.verbose));
  log.info(fmt::format("Averages: {} inferences", reporting.window));
  log.info("Percentiles: " + percentiles);
  log.info("Dump refittable layers:Disabled");
  log.info("Dump output: " + on_off(reporting.dump_output));
  log.info("Profile: " + on_off(reporting.dump_profile));
  log.info("Export timing to JSON file: " + reporting.export_times);
  log.info("Export output to JSON file: " + reporting.export_output);
  log.info("Export profile to JSON file: " + reporting.export_profile);
  log.info("");
}

}  // namespace

void print_option_banner(Log& log, const Options& options) {
  log.info("=== Model Options ===");
  log.info(std::string("Format: ") + (options.model.onnx.empty() ? "*" : "ONNX"));
  log.info("Model: " + options.model.onnx);
  log.info("Output:");
  if (options.build.load_engine.empty()) {
    print_build(log, options.build);
  } else {
    log.info("");
  }
  print_system(log, options.system, options.build);
  print_inference(log, options.inference, options.build.profiling_verbosity);
  print_reporting(log, options.reporting);
}

}  // namespace lathe::cli
