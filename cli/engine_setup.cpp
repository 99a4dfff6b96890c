// SPDX-License-Identifier: Apache-2.0
#include "engine_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "arguments/flag.h"
#include "arguments/tactic_sources.h"
#include "base/file.h"
#include "base/interrupted.h"
#include "base/stopwatch.h"
#include "budget_build.h"
#include "builder/builder.h"
#include "builder/io_formats.h"
#include "builder/quantize.h"
#include "builder/shape_inputs.h"
#include "engine_report.h"
#include "failure.h"
#include "interrupt.h"
#include "memory_use.h"
#include "profiles.h"
#include "report/build_log.h"

namespace lathe::cli {
namespace {

const std::string kNoEngine = "Failed to create engine from model or file.";
const std::string kNoSetUp = "Engine set up failed";

// The shapes of inputs that have one shape only.
std::map<std::string, Extents, std::less<>> fixed_shapes(const Options& options) {
  std::map<std::string, Extents, std::less<>> shapes;
  if (options.build.profiles.size() != 1) return shapes;
  for (const NamedRange& named : options.build.profiles[0])
    if (named.range.min == named.range.max) shapes[named.name] = named.range.opt;
  return shapes;
}

// The float model with Q and DQ nodes of the cache's scales.
Network parse_calibrated(Builder& builder, const Options& options, Log& log) {
  if (!options.build.int8) throw_input_error("--calib is read with --int8; add it, or leave --calib out");
  std::error_code ignored;
  if (std::filesystem::is_directory(options.build.calibration, ignored))
    throw_input_error(
        options.build.calibration +
        " is a folder of samples, which --calib takes with --budget (such as --budget='l2<1e-2'); "
        "without a budget write the model with lathe quantize --calib, and build an engine of that");
  const std::string text = read_file(options.build.calibration);
  const std::filesystem::path file = options.model.onnx;
  const QuantizeResult result =
      quantize_with_scales(file, parse_calibration_cache(text, options.build.calibration));
  log.info(fmt::format("Calibration cache: {} tensors and {} weights quantised, {} nodes stay float{}",
                       result.model.activations, result.model.weights, result.left.size(),
                       result.left.empty() ? "" : ". --verbose says why"));
  for (const auto& node : result.left)
    log.library(Severity::Verbose,
                fmt::format("'{}' ({}) stays float: {}{}", node.node, node.op_type, node.reason,
                            node.tensor.empty() ? "" : ": '" + node.tensor + "'"));
  return builder.parse_onnx(std::as_bytes(std::span(result.model.bytes)), file.parent_path());
}

Network parse_model(Builder& builder, const Options& options, Log& log) {
  const Stopwatch watch;
  log.info("Start parsing network model.");
  const auto finished = [&] {
    log.info(fmt::format("Finished parsing network model. Parse time: {}", format_number(watch.seconds())));
  };
  try {
    Network network = options.build.calibration.empty() || !options.build.budget.empty()
                          ? builder.parse_onnx(options.model.onnx, fixed_shapes(options))
                          : parse_calibrated(builder, options, log);
    finished();
    for (const auto& warning : network.warnings) log.library(Severity::Warning, warning);
    return network;
  } catch (const std::exception& error) {
    log.library(Severity::Error, error.what());
    log.error("Failed to parse onnx file");
    finished();
    fail({"Parsing model failed", kNoEngine, kNoSetUp});
  }
}

// Each once: many engines may be built.
class WarningsOnly final : public Observer {
 public:
  explicit WarningsOnly(Log& log) : log_(log) {}
  void on(const Event& event) override {
    const auto* message = std::get_if<Message>(&event);
    if (message != nullptr && message->severity <= Severity::Warning && told_.insert(message->text).second)
      log_.library(message->severity, message->text);
  }

 private:
  Log& log_;
  std::set<std::string> told_;
};

void prepare_types(const Options& options, Network& network) {
  const auto& flags = options.build;
  bool has_quantization = false, has_fp8 = false;
  for (const NodeId id : network.graph->order()) {
    const Node& node = network.graph->node(id);
    has_quantization |=
        std::holds_alternative<QuantizeLinear>(node.op) || std::holds_alternative<DequantizeLinear>(node.op);
    has_fp8 |= std::holds_alternative<DequantizeLinear>(node.op) &&
               network.graph->value(node.inputs[0]).dtype == DType::Float8E4M3FN;
  }
  if (flags.fp8 && !has_fp8)
    fail(
        {"--fp8 needs a model with QuantizeLinear and DequantizeLinear to FP8 (E4M3): lathe quantize "
         "--activations=fp8 writes one; leave --fp8 out for FP32, or use --bf16",
         "Network And Config setup failed", "Building engine failed", kNoEngine, kNoSetUp});
  if (flags.int8 && !has_quantization && flags.budget.empty()) {
    fail(
        {"--int8 needs a model with QuantizeLinear/DequantizeLinear or a calibration cache (--calib): lathe "
         "quantize makes either; leave --int8 out for FP32, or use --bf16",
         "Network And Config setup failed", "Building engine failed", kNoEngine, kNoSetUp});
  }
  try {
    auto types = io_types("--inputIOFormats", flags.input_formats, network.inputs());
    types.merge(io_types("--outputIOFormats", flags.output_formats, network.outputs()));
    set_io_types(network, types);
  } catch (const Error& error) {
    fail({error.what(), "Network And Config setup failed", "Building engine failed", kNoEngine, kNoSetUp});
  }
}

void save_engine(const Engine& engine, const std::string& file, bool strip) {
  try {
    strip ? engine.plan()->stripped()->write(file) : engine.save(file);
  } catch (const std::exception& error) {
    fail(error, {"Saving engine to file failed.", kNoSetUp});
  }
}

EngineSetUp build_engine(const Options& options, const std::shared_ptr<const Backend>& backend,
                         const std::shared_ptr<const PluginSource>& plugins, MemoryUse& memory, Log& log) {
  const Stopwatch watch;
  try {
    if (!options.build.budget.empty()) check_budget(options);
  } catch (const Error& error) {
    fail({error.what(), "Network And Config setup failed", kNoEngine, kNoSetUp});
  }
  BuildLog observer(log);
  Builder builder(backend, observer);
  builder.use_plugins(plugins, options.build.plugin_override);
  builder.set_open_inputs(options.model.input_lengths);
  Network network = parse_model(builder, options, log);
  memory.step("Import network");
  prepare_types(options, network);
  std::vector<OptimizationProfile> profiles;
  const Network unmarked = network;
  const auto mark = [&](Network& marked) { mark_shape_inputs(marked, shape_input_values(options, marked)); };
  if (!network.has_fixed_shapes) {
    mark(network);
    profiles = make_profiles(options, network.inputs(), network.outputs(), log);
  }
  std::shared_ptr<const Engine> engine;
  Json budget;
  try {
    const Stoppable stoppable;
    BuildOptions build = make_build_options(options, std::move(profiles), log);
    build.stop = stoppable.token();
    if (options.build.budget.empty()) {
      engine = builder.build(network, build);
    } else {
      WarningsOnly warnings(log);
      Builder quiet(backend, warnings);
      quiet.use_plugins(plugins, options.build.plugin_override);
      quiet.set_open_inputs(options.model.input_lengths);
      engine = build_within_budget(options, unmarked, quiet, build, mark, budget, log);
    }
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    log.set_status("");
    const Error named(ErrorKind::System,
                      options.model.onnx + ": " + error.what());  // what failed to fit into memory, say
    fail(named, {"Engine could not be created from network", "Building engine failed", kNoEngine, kNoSetUp});
  }
  log.set_status("");
  memory.report_peak();
  memory.step("Build engine");
  report_built_engine(*engine, log);
  if (!options.build.save_engine.empty())
    save_engine(*engine, options.build.save_engine, options.build.strip_weights);
  log.info(fmt::format("Engine built in {} sec.", format_number(watch.seconds())));
  constexpr double kMebibyte = 1048576;
  log.info(fmt::format("Created engine with size: {} MiB",
                       format_number(static_cast<double>(engine->plan()->serialized_bytes()) / kMebibyte)));
  return {engine, std::move(budget)};
}

// The plan's layers with the weights of --refitFromOnnx.
std::shared_ptr<const Engine> refit_engine(const Options& options, const Plan& plan,
                                           std::shared_ptr<const Backend> backend,
                                           std::shared_ptr<const PluginSource> plugins, Log& log) {
  const Stopwatch watch;
  const std::string& model = options.build.refit_from;
  try {
    BuildLog observer(log);
    Builder builder(std::move(backend), observer);
    builder.use_plugins(std::move(plugins), options.build.plugin_override);
    builder.set_open_inputs(options.model.input_lengths);
    const Network network = builder.parse_onnx(model, fixed_shapes(options));
    auto engine = builder.refit(plan, network.graph, {.disabled = options.build.disabled_passes});
    log.info(fmt::format("Engine refitted with the weights of {} in {} sec.", model,
                         format_number(watch.seconds())));
    return engine;
  } catch (const std::exception& error) {
    fail(error, {"Engine refit failed", kNoEngine, kNoSetUp});
  }
}

}  // namespace

namespace {

void set_layer_precisions(BuildOptions& build, const BuildFlags& flags, Log& log) {
  const std::string& constraints = flags.precision_constraints;
  build.precision_constraints = constraints == "obey"     ? PrecisionConstraints::Obey
                                : constraints == "prefer" ? PrecisionConstraints::Prefer
                                                          : PrecisionConstraints::None;
  for (const LayerTypeNames& entry : parse_layer_types("--layerPrecisions", flags.layer_precisions))
    build.layer_precisions.push_back({entry.layer, entry.types[0], {}});
  for (const LayerTypeNames& entry : parse_layer_types("--layerOutputTypes", flags.layer_output_types))
    build.layer_precisions.push_back({entry.layer, std::nullopt, entry.types});
  if (constraints != "none" && build.layer_precisions.empty())
    log.warning("--precisionConstraints=" + constraints +
                " has no effect without --layerPrecisions or --layerOutputTypes.");
}

}  // namespace

BuildOptions make_build_options(const Options& options, std::vector<OptimizationProfile> profiles, Log& log) {
  const auto& flags = options.build;
  BuildOptions build;
  build.profiles = std::move(profiles);
  build.bf16 = flags.bf16;
  build.fp16 = flags.fp16;
  build.best = flags.best;
  build.strongly_typed = flags.strongly_typed;
  set_layer_precisions(build, flags, log);
  build.winograd = flags.winograd;
  build.batch_part = flags.batch_part;
  if (flags.optimization_level >= 0) build.optimization_level = flags.optimization_level;
  build.max_tactics = flags.max_tactics;
  build.disabled_runners = disabled_runners(flags.tactic_sources);
  build.avg_timing = flags.avg_timing;
  build.time_budget_seconds = static_cast<double>(flags.time_budget_seconds);
  build.timing_cache_mode = flags.no_builder_cache            ? TimingCacheMode::Disabled
                            : flags.timing_cache_file.empty() ? TimingCacheMode::Local
                                                              : TimingCacheMode::Global;
  build.timing_cache_file = flags.timing_cache_file;
  build.error_on_timing_cache_miss = flags.error_on_timing_cache_miss;
  build.keep_nan = flags.check_numerics;
  build.fail_on_fallback = flags.fail_on_fallback;
  build.fast_load = flags.fast_load;
  build.plugin_libraries.assign(flags.plugins_to_serialize.begin(), flags.plugins_to_serialize.end());
  if (const auto pool = flags.memory_pools.find("workspace"); pool != flags.memory_pools.end()) {
    build.workspace_limit_bytes = static_cast<int64_t>(pool->second);
  }
  build.verbosity = flags.profiling_verbosity == 2   ? ProfilingVerbosity::Detailed
                    : flags.profiling_verbosity == 1 ? ProfilingVerbosity::None
                                                     : ProfilingVerbosity::LayerNamesOnly;
  build.passes.disabled = flags.disabled_passes;
  build.passes.dump_after = flags.dump_after;
  build.passes.stop_after = flags.stop_after;
  build.passes.verify_with_oracle = flags.verify_passes;
  build.passes.dump = dump_graph(log);
  return build;
}

SystemFlags system_flags_of(const CommandWords& arguments) {
  Options options;
  constexpr std::string_view kNames[] = {"--device",        "--cpuThreads",     "--cpuIsa",
                                         "--staticPlugins", "--dynamicPlugins", "--trustEngine"};
  for (const auto& flag : all_flags()) {
    const std::string name(flag.name);
    if (std::ranges::find(kNames, flag.name) == std::end(kNames) || !arguments.has(name)) continue;
    flag.apply(options, arguments.value(name));
  }
  return options.system;
}

std::shared_ptr<plugin::Registry> open_plugins(const SystemFlags& system, Log* log,
                                               const std::vector<std::string>& to_serialize) {
  auto registry = std::make_shared<plugin::Registry>();
  for (const auto* libraries : {&system.static_plugins, &system.dynamic_plugins, &to_serialize}) {
    for (const std::string& library : *libraries) {
      if (log) log->info("Loading supplied plugin library: " + library);
      registry->load(library);
    }
  }
  if (system.trust_engine) registry->trust_engines();
  return registry;
}

std::shared_ptr<const Backend> open_device(const SystemFlags& system, bool tf32) {
  DeviceOptions options;
  // What is said about the CPU means the CPU.
  const bool says_cpu = !system.cpu_isa.empty() || system.cpu_threads > 0;
  options.device = !system.device.empty() ? system.device : says_cpu ? "cpu" : "auto";
  options.tf32 = tf32;
  options.cpu_isa = system.cpu_isa;
  options.threads = system.cpu_threads;
  return open_backend(options);
}

std::shared_ptr<const Engine> load_engine(const std::string& file, std::shared_ptr<const Backend> backend,
                                          std::shared_ptr<plugin::Registry> plugins, Log& log) {
  try {
    MappedFile::open(file);
  } catch (const Error& error) {
    fail(error, {"Error opening engine file: " + file, kNoEngine, kNoSetUp});
  }
  const Stopwatch watch;
  try {
    const auto plan = Plan::read(file, std::move(plugins));
    log.library(Severity::Info, fmt::format("Loaded engine size: {} MiB", plan->file_bytes() >> 20));
    const auto fit = plan->find_section(backend->target());
    std::shared_ptr<const Engine> engine;
    if (fit.section >= 0) {
      engine = Engine::load(plan, backend);
    } else {
      WarningsOnly observer(log);  // the line below says what happened
      engine = Builder(backend, observer).retarget(*plan);
      log.library(Severity::Warning,
                  fmt::format("{} has no section for this device ({}): made one in {} seconds, untimed. "
                              "--saveEngine keeps it; `lathe "
                              "retune {} -o new.engine` times it and keeps it.",
                              file, fit.reason, format_number(watch.seconds()), file));
    }
    log.info(fmt::format("Engine deserialized in {} sec.", format_number(watch.seconds())));
    return engine;
  } catch (const std::exception& error) {
    fail(error, {"Engine deserialization failed", "Got invalid engine!", "Inference set up failed"});
  }
}

namespace {

// A stripped file is no engine before it has weights.
std::shared_ptr<const Engine> load_or_refit(const Options& options,
                                            const std::shared_ptr<const Backend>& backend,
                                            const std::shared_ptr<plugin::Registry>& plugins, Log& log) {
  const auto& flags = options.build;
  if (flags.refit_from.empty()) return load_engine(flags.load_engine, backend, plugins, log);
  try {
    return refit_engine(options, *Plan::read(flags.load_engine, plugins), backend, plugins, log);
  } catch (const Error& error) {
    fail(error, {"Error opening engine file: " + flags.load_engine, kNoEngine, kNoSetUp});
  }
}

}  // namespace

EngineSetUp set_up_engine(const Options& options, std::shared_ptr<const Backend> backend,
                          std::shared_ptr<plugin::Registry> plugins, MemoryUse& memory, Log& log) {
  const auto& flags = options.build;
  if (!flags.load_engine.empty()) {
    auto engine = load_or_refit(options, backend, plugins, log);
    memory.step("Load engine");
    if (!flags.save_engine.empty()) {  // with the section that was just made, if one was
      save_engine(*engine, flags.save_engine, flags.strip_weights);
      log.info(fmt::format("Saved engine to {}", flags.save_engine));
    }
    return {engine};
  }
  EngineSetUp built = build_engine(options, backend, plugins, memory, log);
  if (!flags.refit_from.empty())
    built.engine = refit_engine(options, *built.engine->plan(), backend, plugins, log);
  return built;
}

}  // namespace lathe::cli
