// SPDX-License-Identifier: Apache-2.0
//
// Flags of the device, our own flags, and the names that only other devices can honour.
#include <fmt/format.h>

#include "arguments/arguments.h"
#include "arguments/flag.h"

namespace lathe::cli {
namespace {

using O = Options;
using S = const std::string;

constexpr std::string_view kDla = "needs a DLA core; this build has no DLA backend";
constexpr std::string_view kSafety = "needs the safety runtime of TensorRT, which has no counterpart here";
constexpr std::string_view kTuning =
    "needs the build routes of TensorRT 11; --builderOptimizationLevel=5 times all tactics, `lathe retune` "
    "times an engine anew";
constexpr std::string_view kRtx = "is a flag of TensorRT for RTX; it has no counterpart here";

std::set<std::string, std::less<>> names(const std::string& list) {
  std::set<std::string, std::less<>> set;
  for (auto& item : split_list(list)) set.insert(std::move(item));
  return set;
}

// "a.so,b.so"
void add_libraries(std::vector<std::string>& libraries, const std::string& list) {
  for (std::string& library : split_list(list)) libraries.push_back(std::move(library));
}

}  // namespace

std::string parse_device(std::string_view flag, const std::string& text) {
  if (text == "cpu" || text == "auto") return text;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || text.size() > 4)
    throw_input_error(fmt::format("{}={} is no device: write cpu, auto or the number of a GPU, as in {}=0",
                                  flag, text, flag));
  return text;
}

std::vector<Flag> system_flags() {
  return {
      {Section::System, "--device", "cpu|auto|<n>",
       "the CPU, or GPU number n (default: GPU 0 when there is one, else the CPU)",
       [](O& o, S& v) { o.system.device = parse_device("--device", v); }},
      {Section::System, "--cpuOnly", "", "",
       [](O& o, S&) {
         if (o.system.device.empty()) o.system.device = "cpu";
         o.tell("--cpuOnly: running on the CPU backend, as --device=cpu does.");
       }},
      {Section::System, "--ignoreParsedPluginLibs", "", "",
       [](O& o, S&) { o.system.ignore_parsed_plugin_libs = true; }},
      {Section::System, "--plugins", "<lib>", "",
       [](O& o, S& v) {
         add_libraries(o.system.static_plugins, v);
         o.tell("--plugins flag has been deprecated, use --staticPlugins flag instead.");
       },
       true},
      {Section::System, "--staticPlugins", "<lib>",
       "a library of custom operators to load (docs/plugins.md); may be given several times",
       [](O& o, S& v) { add_libraries(o.system.static_plugins, v); }, true},
      {Section::System, "--dynamicPlugins", "<lib>", "the same",
       [](O& o, S& v) { add_libraries(o.system.dynamic_plugins, v); }, true},
      {Section::System, "--setPluginsToSerialize", "<lib>",
       "a library that is loaded, and that the engine file carries",
       [](O& o, S& v) { add_libraries(o.build.plugins_to_serialize, v); }, true},
  };
}

std::vector<Flag> lathe_flags() {
  return {
      {Section::Lathe, "--trustEngine", "",
       "run the plugin libraries that an engine file carries: only for files that you trust like programs",
       [](O& o, S&) { o.system.trust_engine = true; }},
      {Section::Lathe, "--cpuThreads", "<n>",
       "threads of the CPU backend (default: the cores this process may use)",
       [](O& o, S& v) { o.system.cpu_threads = bounded_int("--cpuThreads", v, 1, 1024); }},
      {Section::Lathe, "--cpuIsa", "avx2|avx512|avx512_bf16|amx", "use no newer instructions than these",
       [](O& o, S& v) {
         o.system.cpu_isa = one_of("cpuIsa", v, {"avx2", "avx512", "avx512_bf16", "amx"});
       }},
      {Section::Lathe, "--noWinograd", "",
       "no tactics that trade accuracy for fewer multiplications (Winograd, Strassen)",
       [](O& o, S&) { o.build.winograd = false; }},
      {Section::Lathe, "--batchPart", "<n>",
       "run the batch in parts of n items, each part on a thread of its own; 0: whole (default: what is "
       "faster)",
       [](O& o, S& v) { o.build.batch_part = bounded_int("--batchPart", v, 0, 1 << 20); }},
      {Section::Lathe, "--budget", "<limit>",
       "with --best or --int8, and --calib: the fastest engine within 'top1<0.5%', 'l2<1e-2' or "
       "'cosine>0.999' of the float32 "
       "model, on held-back samples; products that cost too much stay float",
       [](O& o, S& v) { o.build.budget = v; }},
      {Section::Lathe, "--keepState", "<input:output,...>",
       "a query is a step: outputs stay in memory as the inputs of the next one; without pairs, those that "
       "names tell (past.x and "
       "present.x)",
       [](O& o, S& v) {
         o.inference.keep_state = true;
         o.inference.state_pairs = split_list(v);
       },
       false, true},
      {Section::Lathe, "--buildTime", "<s>", "stop tuning after this time and take the best so far",
       [](O& o, S& v) {
         o.build.time_budget_seconds = parse_float("--buildTime", v);
         if (o.build.time_budget_seconds <= 0)
           throw_input_error(fmt::format("--buildTime={} must be positive", v));
       }},
      {Section::Lathe, "--verifyPasses", "", "check every graph rewrite against the reference interpreter",
       [](O& o, S&) { o.build.verify_passes = true; }},
      {Section::Lathe, "--dumpAfter", "<passes>", "print the graph after these passes (all: after each)",
       [](O& o, S& v) { o.build.dump_after = names(v); }},
      {Section::Lathe, "--disablePass", "<passes>",
       "leave these passes out; help: prints a table of all with what each does",
       [](O& o, S& v) { o.build.disabled_passes = names(v); }},
      {Section::Lathe, "--stopAfter", "<n>", "stop after n graph rewrites (to find a wrong one by bisection)",
       [](O& o, S& v) { o.build.stop_after = bounded_int("--stopAfter", v, 0, 1 << 30); }},
  };
}

std::vector<Flag> refused_flags() {
  return {
      {Section::System, "--useDLACore", "<n>", "",
       [](O& o, S& v) {
         o.system.dla_core = bounded_int("--useDLACore", v, 0, 64);
         o.refuse("--useDLACore", kDla);
       }},
      {Section::System, "--allowGPUFallback", "", "", [](O& o, S&) { o.build.gpu_fallback = true; }},
      {Section::System, "--buildDLAStandalone", "", "",
       [](O& o, S&) { o.refuse("--buildDLAStandalone", kDla); }},
      {Section::System, "--uint8AsymmetricQuantizationDLA", "", "",
       [](O& o, S&) { o.refuse("--uint8AsymmetricQuantizationDLA", kDla); }},
      {Section::System, "--reportCapabilityDLA", "", "",
       [](O& o, S&) { o.refuse("--reportCapabilityDLA", kDla); }},
      {Section::System, "--adjustForDLA", "", "", [](O& o, S&) { o.refuse("--adjustForDLA", kDla); }},
      {Section::System, "--dlaWorkspaceAllocationStrategy", "default|sharedStatic", "",
       [](O& o, S& v) {
         if (one_of("dlaWorkspaceAllocationStrategy", v, {"default", "sharedStatic"}) != "default")
           o.refuse("--dlaWorkspaceAllocationStrategy", kDla);
       }},
      {Section::System, "--safe", "", "", [](O& o, S&) { o.refuse("--safe", kSafety); }},
      {Section::System, "--consistency", "", "", [](O& o, S&) { o.refuse("--consistency", kSafety); }},
      {Section::System, "--restricted", "", "", [](O& o, S&) { o.refuse("--restricted", kSafety); }},
      {Section::System, "--dumpKernelText", "", "", [](O& o, S&) { o.refuse("--dumpKernelText", kSafety); }},
      {Section::System, "--dumpCheckerBlob", "", "",
       [](O& o, S&) { o.refuse("--dumpCheckerBlob", kSafety); }},
      {Section::System, "--loadCheckerBlob", "<file>", "",
       [](O& o, S&) { o.refuse("--loadCheckerBlob", kSafety); }},
      {Section::System, "--reference", "", "", [](O& o, S&) { o.refuse("--reference", kSafety); }},
      {Section::System, "--remoteAutoTuningConfig", "<uri>", "",
       [](O& o, S&) { o.refuse("--remoteAutoTuningConfig", kSafety); }},
      {Section::System, "--remoteConfig", "<uri>", "", [](O& o, S&) { o.refuse("--remoteConfig", kSafety); }},
      {Section::System, "--safetyPlugins", "<lib>", "",
       [](O& o, S&) { o.refuse("--safetyPlugins", kSafety); }, true},
      {Section::System, "--tuneBuildRoutes", "<expr>", "",
       [](O& o, S&) { o.refuse("--tuneBuildRoutes", kTuning); }},
      {Section::System, "--tuneBuildRouteFile", "<file>", "",
       [](O& o, S&) { o.refuse("--tuneBuildRouteFile", kTuning); }},
      {Section::System, "--tuningSearch", "<name>", "",
       [](O& o, S&) { o.refuse("--tuningSearch", kTuning); }},
      {Section::System, "--tuningCacheFile", "<file>", "",
       [](O& o, S&) { o.refuse("--tuningCacheFile", kTuning); }},
      {Section::System, "--tuningResultFile", "<file>", "",
       [](O& o, S&) { o.refuse("--tuningResultFile", kTuning); }},
      {Section::System, "--tuningTimeOut", "<s>", "", [](O& o, S&) { o.refuse("--tuningTimeOut", kTuning); }},
      {Section::System, "--saveAllEngines", "", "", [](O& o, S&) { o.refuse("--saveAllEngines", kTuning); }},
      {Section::System, "--dryRun", "", "", [](O& o, S&) { o.refuse("--dryRun", kTuning); }},
      {Section::System, "--continue", "", "", [](O& o, S&) { o.refuse("--continue", kTuning); }},
      {Section::System, "--helpBuildRoute", "<knob>", "",
       [](O& o, S&) { o.refuse("--helpBuildRoute", kTuning); }},
      {Section::System, "--setBuildRoute", "<route>", "",
       [](O& o, S&) { o.refuse("--setBuildRoute", kTuning); }},
      {Section::System, "--computeCapabilities", "<list>", "",
       [](O& o, S&) { o.refuse("--computeCapabilities", kRtx); }},
      {Section::System, "--useGpu", "", "", [](O& o, S&) { o.refuse("--useGpu", kRtx); }},
      {Section::System, "--runtimeCacheFile", "<file>", "",
       [](O& o, S&) { o.refuse("--runtimeCacheFile", kRtx); }},
      {Section::System, "--specializeStrategyDS", "<name>", "",
       [](O& o, S&) { o.refuse("--specializeStrategyDS", kRtx); }},
      {Section::System, "--rtxCudaGraphStrategy", "<name>", "",
       [](O& o, S&) { o.refuse("--rtxCudaGraphStrategy", kRtx); }},
      {Section::System, "--deferWeightsLoading", "", "",
       [](O& o, S&) { o.refuse("--deferWeightsLoading", kRtx); }},
  };
}

}  // namespace lathe::cli
