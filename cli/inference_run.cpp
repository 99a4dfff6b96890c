// SPDX-License-Identifier: Apache-2.0
#include "inference_run.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "arguments/values.h"
#include "base/interrupted.h"
#include "base/json.h"
#include "engine_report.h"
#include "engine_setup.h"
#include "failure.h"
#include "inference.h"
#include "interrupt.h"
#include "kept_state.h"
#include "output_file.h"
#include "profiles.h"
#include "report/layer_profile.h"
#include "run_summary.h"
#include "stream_inputs.h"

namespace lathe::cli {
namespace {

const std::string kNoInference = "Inference set up failed";
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
      if (options.inference.keep_state) keep_state(*context, options, s == 0, log);
      set_run_shapes(*context, options.inference, log);
      if (options.inference.keep_state && s == 0) print_state(*context, log);
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

std::vector<QueryRecorder> measure(const Options& options, Streams& streams, LayerProfiler* profiler,
                                   const Stoppable& stoppable, Log& log) {
  try {
    const RecordOptions recording{.warm_up_ms = options.inference.warm_up_ms,
                                  .window = options.reporting.window,
                                  .keep_queries = !options.reporting.export_times.empty()};
    auto records = run_queries(streams, options.inference, recording, profiler, stoppable.token());
    const std::string note = streams.front()->context().launch_note();
    if (!note.empty()) log.line(options.inference.graph ? Severity::Info : Severity::Verbose, note);
    return records;
  } catch (const Error& error) {
    fail(error, {"Error occurred during inference"});
  }
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
  export_file(reporting.export_output, [&](FileWriter& file) { write_outputs_json(file, outputs); });
  if (!reporting.dump_raw_bindings) return;
  log.info("Dumping I/O Bindings to RAW Files:");
  for (const size_t i : stream.context().own_inputs()) {
    Tensor tensor = Tensor::allocate(engine.inputs()[i].dtype, stream.context().input_extents(i));
    if (!tensor.bytes().empty())
      std::memcpy(tensor.mutable_bytes().data(), stream.input_data(i), tensor.bytes().size());
    write_raw_file(log, {engine.inputs()[i].name, std::move(tensor)}, true, ".");
  }
  for (const auto& output : outputs) write_raw_file(log, output, false, ".");
}

void report_restarts(const Streams& streams, Log& log) {
  int64_t restarts = 0;
  for (const auto& stream : streams) restarts += stream->restarts();
  if (restarts > 0)
    log.info(fmt::format("The state was full {} times and began again; times are of steps of all lengths.",
                         restarts));
}

void report_performance(const Options& options, Context& context, std::vector<QueryRecorder> records,
                        bool complete, const Json& budget, Log& log) {
  auto report = summarize_performance(records, options.reporting.percentiles);
  report.streams = options.inference.streams;
  report.on_host = context.engine().backend()->is_host();
  report.spins = options.inference.spin;
  print_performance(log, report);
  export_file(options.reporting.export_times, [&](FileWriter& file) { write_times_json(file, report); });
  export_file(options.reporting.export_summary, [&](FileWriter& file) {
    file.write(dump_json(run_summary(options, context, report, complete, budget)) + "\n");
  });
}

void report_layers(const Options& options, const LayerProfiler& profiler, Log& log) {
  const auto report = summarize_layers(profiler);
  if (options.reporting.dump_profile) print_layer_profile(log, report);
  export_file(options.reporting.export_profile, [&](FileWriter& file) { file.write(profile_json(report)); });
}

// One run before all others, so that its lines stand above the times.
void report_numerics(InferenceStream& stream, Log& log) {
  const NumericsReport report = stream.check_numerics();
  if (!report.layers_without_nan.empty())
    log.warning(fmt::format(
        "--checkNumerics: the engine was built without the flag, and {} of its layers may lose NaN: {}",
        report.layers_without_nan.size(), fmt::join(report.layers_without_nan, ", ")));
  for (const auto& name : report.inputs)
    log.warning(fmt::format("--checkNumerics: input '{}' is not finite everywhere", name));
  if (report.first)
    log.warning("--checkNumerics: " + report.first->to_string());
  else
    log.info(fmt::format("--checkNumerics: none of {} layers makes NaN or infinity out of finite operands",
                         report.layers));
  for (const auto& name : report.outputs)
    log.warning(fmt::format("--checkNumerics: output '{}' is not finite everywhere", name));
}

}  // namespace

void run_inference(const Options& options, std::shared_ptr<const Engine> engine, const Json& budget,
                   MemoryUse& memory, Log& log) {
  const int profile = used_profile(options, *engine, log);
  Streams streams = make_streams(options, engine, profile, log);
  memory.step("Create execution context");
  report_engine(options, *engine, &streams.front()->context(), log);
  if (options.inference.duration_s < 0) {
    log.warning(
        "--duration=-1 is specified, inference will run in an endless loop until aborted with CTRL-C "
        "(SIGINT)");
  }
  if (options.inference.graph && engine->backend()->is_host())
    log.warning("--useCudaGraph has no effect on a CPU: a query is one call that launches nothing.");
  if (options.build.check_numerics) report_numerics(*streams.front(), log);
  streams.front()->context().reset_state();
  log.info("Starting inference");
  const bool with_layers = options.reporting.profiles_layers();
  const Stoppable stoppable;
  const auto stopped = [&] { return stoppable.token().stop_requested(); };
  LayerProfiler profiler(engine->timed_names(profile));
  if (with_layers && !options.inference.separate_profile_run) {
    measure(options, streams, &profiler, stoppable, log);
    log.info(
        "The e2e network timing is not reported since it is inaccurate due to the extra synchronizations "
        "when the profiler "
        "is enabled.");
    log.info(
        "To show e2e network timing report, add --separateProfileRun to profile layer timing in a separate "
        "run or remove "
        "--dumpProfile to disable the profiler.");
  } else {
    auto records = measure(options, streams, nullptr, stoppable, log);
    if (stopped()) log.warning("Interrupted: what follows is of the queries until then.");
    report_performance(options, streams.front()->context(), std::move(records), !stopped(), budget, log);
    if (with_layers && !stopped()) measure(options, streams, &profiler, stoppable, log);
  }
  report_restarts(streams, log);
  report_outputs(options, *streams.front(), log);
  if (profiler.runs() > 0) report_layers(options, profiler, log);
  if (stopped() && options.inference.duration_s >= 0) throw Interrupted();  // an endless run ends so
}

void time_deserialization(const Options& options, std::shared_ptr<const Backend> backend,
                          std::shared_ptr<plugin::Registry> plugins, MemoryUse& memory, Log& log) {
  constexpr int kWarmUps = 2, kRuns = 20;
  std::string file = options.build.load_engine;
  if (file.empty()) {
    set_up_engine(options, backend, plugins, memory, log);
    file = options.build.save_engine;
    if (file.empty())
      fail({"--timeDeserialize needs an engine file: add --loadEngine=<file> or --saveEngine=<file>"});
  }
  if (!std::filesystem::is_regular_file(file)) fail({"Error opening engine file: " + file});
  const auto load_ms = [&] {
    const double start = host_now_ms();
    try {
      Engine::load(Plan::read(file, plugins), backend);
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
