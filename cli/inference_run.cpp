// SPDX-License-Identifier: Apache-2.0
#include "inference_run.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "engine_setup.h"
#include "failure.h"
#include "inference.h"
#include "arguments/input_data.h"
#include "profiles.h"
#include "report/layer_costs.h"
#include "report/layer_info.h"
#include "report/layer_profile.h"

namespace lathe::cli {
namespace {

const std::string kNoInference = "Inference set up failed";
constexpr double kMebibyte = 1048576;

int used_profile(const Options& options, const Engine& engine, Log& log) {
  const int asked = options.inference.profile;
  if (asked >= engine.profile_count()) {
    fail({fmt::format("Selected profile index {} exceeds the number of profiles that the engine holds. ",
                      asked),
          kNoInference});
  }
  if (asked < 0 && engine.profile_count() > 1) {
    log.warning(fmt::format(
        "{} profiles detected but not set. Running with profile 0. Please use --dumpOptimizationProfile to "
        "see all available profiles.",
        engine.profile_count()));
  }
  return std::max(asked, 0);
}

// 8.x's --batch says how many items a query has; here the shapes say it, so they have to agree.
void check_batch(const Options& options, Context& context) {
  const int batch = options.inference.batch;
  if (batch == 0) return;
  for (size_t i = 0; i < context.engine().inputs().size(); ++i) {
    const Extents extents = context.input_extents(i);
    if (!extents.empty() && extents[0] != batch) {
      fail({fmt::format(
                "--batch={} is for engines with an implicit batch; input {} of this one runs at {}: use "
                "--shapes={}:{}x... instead",
                batch, context.engine().inputs()[i].name, dims_text(extents),
                context.engine().inputs()[i].name, batch),
            kNoInference});
    }
  }
}

// The elements that --shapes gives, else those of the profile's opt shapes, else ones.
Tensor shape_tensor_values(const Options& options, const Engine& engine, int profile, const TensorInfo& info,
                           const Extents& extents) {
  std::vector<double> elements(static_cast<size_t>(element_count(extents)), 1);
  const auto& ranges = engine.profile(profile).values;
  const Extents* given = find_named(options.inference.shapes, info.name);
  if (const auto found = ranges.find(info.name); given == nullptr && found != ranges.end())
    given = &found->second.opt;
  if (given != nullptr && given->size() == elements.size()) elements.assign(given->begin(), given->end());
  return Tensor::from_doubles(info.dtype, extents, elements);
}

void fill_inputs(const Options& options, InferenceStream& stream, int profile, bool announce, Log& log) {
  const Engine& engine = stream.context().engine();
  const Graph& graph = engine.graph(profile);
  for (size_t i = 0; i < engine.inputs().size(); ++i) {
    const auto& info = engine.inputs()[i];
    const Extents extents = stream.context().input_extents(i);
    const std::string* file = find_named(options.inference.inputs, info.name);
    Tensor values;
    if (file != nullptr) {
      if (announce) log.info(fmt::format("Using values loaded from {} for input {}", *file, info.name));
      try {
        values = load_input(*file, info.name, info.dtype, extents);
      } catch (const Error& error) {
        fail(
            {std::string("Uncaught exception detected: ") + error.what()});  // the original does not catch it
      }
    } else if (info.contents) {
      values = shape_tensor_values(options, engine, profile, info, extents);
    } else {
      if (announce) log.info("Using random values for input " + info.name);
      values = random_tensor(info.dtype, extents, integer_range(graph, graph.inputs()[i]));
    }
    if (announce) {
      log.info(
          fmt::format("Input binding for {} with dimensions {} is created.", info.name, dims_text(extents)));
    }
    if (!values.bytes().empty())
      std::memcpy(stream.input_data(i), values.bytes().data(), values.bytes().size());
  }
  for (size_t i = 0; announce && i < engine.outputs().size(); ++i) {
    if (stream.context().output_is_data_dependent(i)) {
      log.info(fmt::format(
          "Output binding for {} is dynamic and will be created during execution using OutputAllocator.",
          engine.outputs()[i].name));
    } else {
      log.info(fmt::format("Output binding for {} with dimensions {} is created.", engine.outputs()[i].name,
                           dims_text(stream.context().output_extents(i))));
    }
  }
}

using Streams = std::vector<std::unique_ptr<InferenceStream>>;

Streams make_streams(const Options& options, const std::shared_ptr<const Engine>& engine, int profile,
                     Log& log) {
  check_input_names(names_of(options.inference.shapes), engine->inputs(), "--shapes");
  check_input_names(names_of(options.inference.inputs), engine->inputs(), "--loadInputs");
  Streams streams;
  for (int s = 0; s < options.inference.streams; ++s) {
    try {
      auto context = engine->create_context(profile);
      log.info("Setting persistentCacheLimit to 0 bytes.");
      set_run_shapes(*context, options.inference, log);
      check_batch(options, *context);
      log.info(fmt::format("Created execution context with device memory size: {} MiB",
                           format_number(static_cast<double>(context->device_bytes()) / kMebibyte)));
      streams.push_back(std::make_unique<InferenceStream>(
          engine, std::move(context), options.inference.overlap ? 2 : 1, options.inference.spin));
    } catch (const Error& error) {
      fail(error, {kNoInference});
    }
    fill_inputs(options, *streams.back(), profile, s == 0, log);
  }
  if (const auto memory = engine->backend()->device_memory(); memory.total_bytes > 0)
    log.info(fmt::format("Device memory after creating {} context(s): {} MiB in use, {} MiB free of {} MiB",
                         streams.size(), (memory.total_bytes - memory.free_bytes) >> 20,
                         memory.free_bytes >> 20, memory.total_bytes >> 20));
  return streams;
}

std::vector<QueryTimes> measure(const Options& options, Streams& streams, LayerProfiler* profiler, Log& log) {
  if (options.inference.graph) {
    const std::string note = streams.front()->context().launch_note();
    const bool is_host = streams.front()->context().engine().backend()->is_host();
    if (is_host)
      log.warning("--useCudaGraph has no effect on a CPU: a query is one call that launches nothing.");
    if (!note.empty()) log.info(note);
  }
  try {
    return run_queries(streams, options.inference, profiler);
  } catch (const Error& error) {
    fail(error, {"Error occurred during inference"});
  }
}

// A report file that cannot be written is an error here; trtexec ignores it silently.
void export_text(const std::string& file, const std::string& text) {
  if (!file.empty()) write_file_atomically(file, text);
}

void report_outputs(const Options& options, InferenceStream& stream, Log& log) {
  const auto& reporting = options.reporting;
  if (!reporting.dump_output && reporting.export_output.empty() && !reporting.dump_raw_bindings) return;
  stream.copy_outputs();
  const auto outputs = stream.outputs();
  const Engine& engine = stream.context().engine();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!stream.context().output_is_data_dependent(i)) continue;
    log.info(fmt::format("Final shape is {} reported by the output allocator.",
                         dims_text(outputs[i].tensor.extents())));
  }
  if (reporting.dump_output) print_outputs(log, outputs);
  export_text(reporting.export_output, outputs_json(outputs));
  if (!reporting.dump_raw_bindings) return;
  log.info("Dumping I/O Bindings to RAW Files:");
  for (size_t i = 0; i < engine.inputs().size(); ++i) {
    Tensor tensor = Tensor::allocate(engine.inputs()[i].dtype, stream.context().input_extents(i));
    if (!tensor.bytes().empty())
      std::memcpy(tensor.mutable_bytes().data(), stream.input_data(i), tensor.bytes().size());
    write_raw_file(log, {engine.inputs()[i].name, std::move(tensor)}, true, ".");
  }
  for (const auto& output : outputs) write_raw_file(log, output, false, ".");
}

void report_performance(const Options& options, std::vector<QueryTimes> trace, Log& log) {
  const auto report = summarize_performance(std::move(trace), options.inference.warm_up_ms,
                                            options.reporting.percentiles, options.inference.streams);
  print_performance(log, report, options.reporting.window);
  export_text(options.reporting.export_times, times_json(report));
}

void report_layers(const Options& options, const LayerProfiler& profiler, Log& log) {
  const auto report = summarize_layers(profiler);
  if (options.reporting.dump_profile) print_layer_profile(log, report);
  export_text(options.reporting.export_profile, profile_json(report));
}

SymbolValues run_symbols(Context& context) {
  SymbolBinder binder;
  for (size_t i = 0; i < context.engine().inputs().size(); ++i) {
    binder.bind_shape(context.engine().inputs()[i], context.input_extents(i));
  }
  return binder.finish();
}

void print_optimization_profiles(const Engine& engine, Log& log) {
  log.info("Optimization Profile Information:");
  for (int p = 0; p < engine.profile_count(); ++p) {
    for (const auto& [name, range] : engine.profile(p).shapes) {
      log.info(fmt::format("Model input {} (profile {}): min={}, opt={}, max={}", name, p,
                           dims_text(range.min), dims_text(range.opt), dims_text(range.max)));
    }
  }
}

LayerReport describe_engine(const Engine& engine, Context* context) {
  const Plan& plan = *engine.plan();
  // What runs has the run's shapes, other profiles the ones that they were tuned for; without a run nothing is known.
  const auto symbols = [&](int profile) -> std::optional<SymbolValues> {
    if (context == nullptr) return std::nullopt;
    if (context->profile() == profile) return run_symbols(*context);
    SymbolValues opt;
    for (const auto& [name, range] : engine.variant(profile).ranges) opt[name] = range.opt;
    return opt;
  };
  LayerReport report = describe_layers(plan, engine.variant(0), symbols(0));
  report.settings = engine.section().settings;
  for (int p = 1; p < engine.profile_count(); ++p) add_profile(report, plan, engine.variant(p), symbols(p));
  return report;
}

}  // namespace

void report_engine(const Options& options, const Engine& engine, Context* context, Log& log) {
  const auto& reporting = options.reporting;
  if (reporting.dump_layer_info || !reporting.export_layer_info.empty()) {
    LayerReport report = describe_engine(engine, context);
    // A plan always knows its layers, so asking for details when it is loaded gives them, whatever it was
    // built with.
    if (options.build.profiling_verbosity == 2) report.verbosity = ProfilingVerbosity::Detailed;
    if (reporting.dump_layer_info) {
      log.info("Layer Information:");
      std::string text = layer_info_text(report);
      text.pop_back();  // the log ends the last line
      log.info("Layers:\n" + text);
    }
    if (!reporting.export_layer_info.empty() && report.verbosity == ProfilingVerbosity::Detailed &&
        context != nullptr) {
      size_t first = 0;
      for (int p = 0; p < context->profile(); ++p) first += engine.choices(p).size();
      add_layer_costs(report, first, *engine.plan(), engine.variant(context->profile()),
                      run_symbols(*context));
    }
    export_text(reporting.export_layer_info, layer_info_json(report));
  }
  if (reporting.dump_optimization_profile) print_optimization_profiles(engine, log);
}

void run_inference(const Options& options, std::shared_ptr<const Engine> engine, Log& log) {
  const int profile = used_profile(options, *engine, log);
  Streams streams = make_streams(options, engine, profile, log);
  report_engine(options, *engine, &streams.front()->context(), log);
  if (options.inference.duration_s < 0) {
    log.warning(
        "--duration=-1 is specified, inference will run in an endless loop until aborted with CTRL-C "
        "(SIGINT)");
  }
  log.info("Starting inference");
  const bool with_layers = options.reporting.profiles_layers();
  LayerProfiler profiler(engine->layer_names(profile));
  if (with_layers && !options.inference.separate_profile_run) {
    measure(options, streams, &profiler, log);
    log.info(
        "The e2e network timing is not reported since it is inaccurate due to the extra synchronizations "
        "when the profiler "
        "is enabled.");
    log.info(
        "To show e2e network timing report, add --separateProfileRun to profile layer timing in a separate "
        "run or remove "
        "--dumpProfile to disable the profiler.");
  } else {
    report_performance(options, measure(options, streams, nullptr, log), log);
    if (with_layers) measure(options, streams, &profiler, log);
  }
  report_outputs(options, *streams.front(), log);
  if (with_layers) report_layers(options, profiler, log);
}

void time_deserialization(const Options& options, std::shared_ptr<const Backend> backend, Log& log) {
  constexpr int kWarmUps = 2, kRuns = 20;
  std::string file = options.build.load_engine;
  if (file.empty()) {
    set_up_engine(options, backend, log);
    file = options.build.save_engine;
    if (file.empty())
      fail({"--timeDeserialize needs an engine file: add --loadEngine=<file> or --saveEngine=<file>"});
  }
  if (!std::filesystem::is_regular_file(file)) fail({"Error opening engine file: " + file});
  const auto load_ms = [&] {
    const double start = host_now_ms();
    try {
      Engine::load(file, backend);
    } catch (const Error& error) {
      fail(error, {"Engine deserialization failed", "Got invalid engine!"});
    }
    return host_now_ms() - start;
  };
  log.info("Begin deserialization warmup...");
  for (int i = 0; i < kWarmUps; ++i) load_ms();
  log.info("Begin deserialization engine timing...");
  const double first = load_ms();
  double total = 0;
  for (int i = 0; i < kRuns; ++i) total += load_ms();
  const double average = total / kRuns;
  log.info(fmt::format("First deserialization time = {} milliseconds", format_number(first)));
  log.info(fmt::format(
      "Total deserialization time = {} milliseconds in {} iterations, average time = {} milliseconds",
      format_number(total), kRuns, format_number(average)));
  const auto bytes = static_cast<double>(std::filesystem::file_size(file));
  log.info(fmt::format("Deserialization Bandwidth = {} GB/s", format_number(bytes / average / 1e6)));
}

}  // namespace lathe::cli
