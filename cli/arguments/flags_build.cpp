// SPDX-License-Identifier: Apache-2.0
//
// Flags of the build: effort, caches, files.
#include <fmt/format.h>

#include "arguments/arguments.h"
#include "arguments/flag.h"
#include "arguments/tactic_sources.h"

namespace lathe::cli {
namespace {

using O = Options;
using S = const std::string;

int verbosity_from(const std::string& word) {
  if (word == "none") return 1;
  return word == "detailed" || word == "verbose" ? 2 : 0;
}

void set_optimization_level(O& o, const std::string& v) {
  o.build.optimization_level = bounded_int("--builderOptimizationLevel", v, 0, 5);
}

void version_compatible(O& o, S&) {
  o.build.version_compatible = true;
  o.tell(
      "Every plan holds the portable graph and loads in later versions; --versionCompatible adds nothing to "
      "it.");
}

std::vector<Flag> effort_flags() {
  return {
      {Section::Build, "--memPoolSize", "<spec>",
       "memory limits, as in --memPoolSize=workspace:512 (MiB; B K M G MiB GB ... work)",
       [](O& o, S& v) { o.build.memory_pools = parse_memory_pools(v); }},
      {Section::Build, "--workspace", "<MiB>", "",
       [](O& o, S& v) {
         o.warn("--workspace flag has been deprecated by --memPoolSize flag.");
         if (!o.build.memory_pools.contains("workspace"))
           o.build.memory_pools["workspace"] = parse_size(v, 1048576);
       }},
      {Section::Build, "--avgTiming", "<n>", "timings per tactic that are averaged (default 8)",
       [](O& o, S& v) { o.build.avg_timing = bounded_int("--avgTiming", v, 1, 1 << 20); }},
      {Section::Build, "--minTiming", "<n>", "",
       [](O& o, S& v) {
         bounded_int("--minTiming", v, 1, 1 << 20);
         warn_of_no_effect(o, "--minTiming", "--avgTiming says how often a tactic is timed");
       }},
      {Section::Build, "--builderOptimizationLevel", "<0-5>",
       "effort: 0 takes the first tactic untimed, 5 times all (default 3)", set_optimization_level},
      {Section::Build, "--maxTactics", "<n>", "time at most n tactics per layer",
       [](O& o, S& v) { o.build.max_tactics = bounded_int("--maxTactics", v, -1, 1 << 30); }},
      {Section::Build, "--heuristic", "", "",
       [](O& o, S&) {
         o.warn(
             "--heuristic flag has been deprecated, use --builderOptimizationLevel=<N> flag instead (N <= 2 "
             "enables heuristic).");
         if (o.build.optimization_level < 0) o.build.optimization_level = 2;
       }},
      {Section::Build, "--tacticSources", "<spec>",
       "libraries to take tactics from, as in --tacticSources=-CUDNN,-CUBLAS_LT or -ONEDNN",
       [](O& o, S& v) {
         o.build.tactic_sources = parse_tactic_sources(v);
         for (const std::string& name : sources_without_effect(o.build.tactic_sources))
           warn_of_no_effect(o, "--tacticSources",
                             name + " names kernels of TensorRT that Lathe does not have");
       }},
      {Section::Build, "--preview", "<spec>", "",
       [](O& o, S& v) {
         o.build.preview_features =
             parse_switches("preview feature", v,
                            {"aliasedPluginIO1003", "runtimeActivationResize", "profileSharing0806",
                             "fasterDynamicShapes0805", "disableExternalTacticSourcesForCore0805"},
                            false);
         warn_of_no_effect(o, "--preview", "there are no preview features");
       }},
      {Section::Build, "--maxAuxStreams", "<n>", "",
       [](O& o, S& v) {
         o.build.max_aux_streams = bounded_int("--maxAuxStreams", v, -1, 1 << 20);
         if (o.build.max_aux_streams > 0) warn_of_no_effect(o, "--maxAuxStreams", "layers run in one stream");
       }},
      {Section::Build, "--tilingOptimizationLevel", "<n>", "",
       [](O& o, S& v) {
         if (bounded_int("--tilingOptimizationLevel", v, 0, 3) > 0)
           warn_of_no_effect(o, "--tilingOptimizationLevel", "tiles are part of each tactic");
       }},
      {Section::Build, "--l2LimitForTiling", "<bytes>", "",
       [](O& o, S& v) {
         parse_float("--l2LimitForTiling", v);
         warn_of_no_effect(o, "--l2LimitForTiling", "tiles are part of each tactic");
       }},
      {Section::Build, "--fastLoad", "",
       "keep packed weights in the engine file, too: larger, and nothing is packed at load",
       [](O& o, S&) { o.build.fast_load = true; }},
      {Section::Build, "--monitorMemory", "", "print the peak memory of the build",
       [](O& o, S&) { o.build.monitor_memory = true; }},
  };
}

std::vector<Flag> cache_flags() {
  return {
      {Section::Build, "--timingCacheFile", "<file>", "read measured times from this file and add new ones",
       [](O& o, S& v) { o.build.timing_cache_file = v; }},
      {Section::Build, "--noBuilderCache", "", "look up no measured times, not even within this build",
       [](O& o, S&) { o.build.no_builder_cache = true; }},
      {Section::Build, "--noCompilationCache", "", "", [](O& o, S&) { o.build.compilation_cache = false; }},
      {Section::Build, "--errorOnTimingCacheMiss", "",
       "fail when the timing cache lacks a time that is needed",
       [](O& o, S&) { o.build.error_on_timing_cache_miss = true; }},
      {Section::Build, "--checkNumerics", "",
       "keep NaN everywhere (library tactics that lose it are left out), and name the first layer that makes "
       "NaN "
       "or infinity",
       [](O& o, S&) { o.build.check_numerics = true; }},
      {Section::Build, "--failOnFallback", "",
       "fail when a layer has no kernel on this device and would run on the slow reference",
       [](O& o, S&) { o.build.fail_on_fallback = true; }},
      {Section::Build, "--tempdir", "<dir>", "",
       [](O& o, S&) { warn_of_no_effect(o, "--tempdir", "a build writes no temporary executables"); }},
      {Section::Build, "--tempfileControls", "<spec>", "",
       [](O& o, S& v) {
         for (const auto& item : split_list(v)) {
           const auto [control, word] = parse_named_value(item);
           const bool allow = one_of("tempfile control setting", word, {"allow", "deny"}) == "allow";
           (one_of("tempfile control", control, {"in_memory", "temporary"}) == "in_memory"
                ? o.build.temporary_in_memory
                : o.build.temporary_files) = allow;
         }
       }},
  };
}

std::vector<Flag> engine_flags() {
  return {
      {Section::Build, "--saveEngine", "<file>", "write the engine to this file",
       [](O& o, S& v) { o.build.save_engine = v; }},
      {Section::Build, "--skipInference", "", "stop when the engine is built (and saved)",
       [](O& o, S&) { o.build.skip_inference = true; }},
      {Section::Build, "--buildOnly", "", "",
       [](O& o, S&) {
         o.build.skip_inference = true;
         o.warn("--buildOnly flag has been deprecated by --skipInference flag.");
       }},
      {Section::Build, "--profilingVerbosity", "layer_names_only|none|detailed",
       "what the engine remembers of its layers for --dumpLayerInfo and --exportLayerInfo",
       [](O& o, S& v) {
         o.build.profiling_verbosity = verbosity_from(
             one_of("profilingVerbosity", v, {"layer_names_only", "none", "detailed", "default", "verbose"}));
         if (v == "default")
           o.warn(
               "--profilingVerbosity=default has been deprecated by --profilingVerbosity=layer_names_only");
         if (v == "verbose")
           o.warn("--profilingVerbosity=verbose has been deprecated by --profilingVerbosity=detailed");
       }},
      {Section::Build, "--nvtxMode", "verbose|default|none", "",
       [](O& o, S& v) {
         o.build.profiling_verbosity = verbosity_from(one_of("nvtxMode", v, {"verbose", "default", "none"}));
         o.warn("--nvtxMode flag has been deprecated by --profilingVerbosity flag.");
       }},
      {Section::Build, "--versionCompatible", "", "", version_compatible},
      {Section::Build, "--vc", "", "", version_compatible},
      {Section::Build, "--excludeLeanRuntime", "", "",
       [](O& o, S&) {
         o.build.exclude_lean_runtime = true;
         warn_of_no_effect(o, "--excludeLeanRuntime", "plans hold no runtime");
       }},
      {Section::Build, "--useRuntime", "full|lean|dispatch", "",
       [](O& o, S& v) {
         o.build.runtime = one_of("useRuntime", v, {"full", "lean", "dispatch"});
         if (v == "full") return;
         if (o.build.load_engine.empty())
           throw_input_error("Building a TensorRT engine requires --useRuntime=full.");
         warn_of_no_effect(o, "--useRuntime", "there is one runtime");
       }},
      {Section::Build, "--leanDLLPath", "<file>", "",
       [](O& o, S& v) {
         o.build.lean_dll_path = v;
         o.refuse("--leanDLLPath",
                  "names a runtime library of TensorRT; there is one runtime and it is linked in");
       }},
      {Section::Build, "--hardwareCompatibilityLevel", "none|ampere+|sameComputeCapability", "",
       [](O& o, S& v) {
         if (v == "none") return;
         if (v != "ampere+" && v != "Ampere+" && v != "sameComputeCapability" &&
             v != "samecomputecapability") {
           throw_input_error(fmt::format(
               "Unknown hardwareCompatibilityLevel: {}. Valid options: none, ampere+, sameComputeCapability.",
               v));
         }
         refuse_when_building(o, "--hardwareCompatibilityLevel",
                              "has no counterpart: a plan has a section for each device, and one that loads "
                              "it elsewhere makes its own");
       }},
      {Section::Build, "--runtimePlatform", "SameAsBuild|WindowsAMD64", "",
       [](O& o, S& v) {
         if (one_of("runtimePlatform", v, {"SameAsBuild", "WindowsAMD64"}) != "SameAsBuild") {
           refuse_when_building(o, "--runtimePlatform=WindowsAMD64",
                                "needs a Windows target; plans are made for the machine that builds");
         }
       }},
      {Section::Build, "--getPlanVersionOnly", "",
       "with --loadEngine: print the version that wrote the plan, run nothing",
       [](O& o, S&) { o.build.plan_version_only = true; }},
      {Section::Build, "--asyncFileReader", "", "",
       [](O& o, S&) { warn_of_no_effect(o, "--asyncFileReader", "engine files are mapped, not read"); }},
      {Section::Build, "--allowWeightStreaming", "", "",
       [](O& o, S&) {
         o.build.allow_weight_streaming = true;
         warn_of_no_effect(
             o, "--allowWeightStreaming",
             "with --fastLoad weights stay in the mapped engine file and are paged in as needed");
       }},
      {Section::Build, "--pluginInstanceNorm", "", "",
       [](O& o, S&) {
         warn_of_no_effect(o, "--pluginInstanceNorm", "InstanceNormalization is a layer of its own");
       }},
      {Section::Build, "--pi", "", "",
       [](O& o, S&) { warn_of_no_effect(o, "--pi", "InstanceNormalization is a layer of its own"); }},
      {Section::Build, "--nativeInstanceNorm", "", "", [](O&, S&) {}},
      {Section::Build, "--ni", "", "", [](O&, S&) {}},
      {Section::Build, "--enablePluginOverride", "", "plugins come before operators of the same name",
       [](O& o, S&) { o.build.plugin_override = true; }},
      {Section::Build, "--refit", "", "build an engine whose weights can be replaced: every engine is one",
       [](O& o, S&) { o.build.refit = true; }},
      {Section::Build, "--refitFromOnnx", "<model.onnx>",
       "take the weights of this model for the engine that was built or loaded, without tuning",
       [](O& o, S& v) { o.build.refit_from = v; }},
      {Section::Build, "--stripWeights", "",
       "--saveEngine leaves the weights out; --refitFromOnnx gives them back when it is loaded",
       [](O& o, S&) { o.build.strip_weights = true; }},
      {Section::Build, "--stripAllWeights", "", "the same as --stripWeights",
       [](O& o, S&) { o.build.strip_weights = true; }},
      {Section::Build, "--weightless", "", "", [](O& o, S&) { o.build.strip_weights = true; }},
      {Section::Build, "--markDebug", "<names>", "",
       [](O& o, S& v) {
         o.build.debug_tensors = v;
         o.refuse("--markDebug",
                  "needs debug tensors; `lathe diff model.onnx model.engine` compares every layer's output");
       }},
      {Section::Build, "--markUnfusedTensorsAsDebugTensors", "", "",
       [](O& o, S&) {
         o.refuse("--markUnfusedTensorsAsDebugTensors",
                  "needs debug tensors; `lathe diff model.onnx model.engine` compares every layer's output");
       }},
  };
}

}  // namespace

std::vector<Flag> build_flags() {
  std::vector<Flag> flags = effort_flags();
  for (auto part : {cache_flags(), engine_flags()}) flags.insert(flags.end(), part.begin(), part.end());
  return flags;
}

}  // namespace lathe::cli
