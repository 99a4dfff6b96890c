// SPDX-License-Identifier: Apache-2.0
//
// `lathe retune`: times the tactics of an engine anew, for this machine, from the portable graph in the file.
// The old engine is kept when the new one is not faster.
#include <fmt/format.h>

#include <functional>
#include <memory>

#include "arguments/options.h"
#include "arguments/words.h"
#include "base/json.h"
#include "builder/builder.h"
#include "commands.h"
#include "engine_setup.h"
#include "inference.h"
#include "interrupt.h"
#include "output_file.h"
#include "profiles.h"
#include "report/build_log.h"
#include "stream_inputs.h"
#include "tune/timer.h"

namespace lathe::cli {
namespace {

// The engine as it was; null when it has no section for this device.
std::shared_ptr<const Engine> as_it_was(std::shared_ptr<const Plan> plan,
                                        const std::shared_ptr<const Backend>& backend) {
  if (plan->find_section(backend->target()).section < 0) return nullptr;
  return Engine::load(std::move(plan), backend);
}

// Milliseconds of one query of each engine at the profile's opt shapes, taken in turns.
std::pair<double, double> race(const std::shared_ptr<const Engine>& old_engine,
                               const std::shared_ptr<const Engine>& new_engine, int profile, Log& log) {
  constexpr int kRepetitions = 25;
  constexpr double kSeconds = 4;
  std::vector<std::unique_ptr<InferenceStream>> streams;
  std::vector<std::function<double()>> rivals;
  for (const auto& engine : {old_engine, new_engine}) {
    auto context = engine->create_context(profile);
    set_run_shapes(*context, {}, log);
    streams.push_back(std::make_unique<InferenceStream>(engine, std::move(context), 1, true));
    InferenceStream* stream = streams.back().get();
    fill_inputs({}, *stream, profile, false, log);
    stream->copy_inputs();
    rivals.push_back([stream, zero = std::shared_ptr(stream->record_now())] {
      const InferenceStream::Clock clock{zero.get(), host_now_ms()};
      QueryRecorder ignored({});
      const double start = host_now_ms();
      stream->query(clock, false, nullptr);
      stream->sync(clock, true, ignored);
      return host_now_ms() - start;
    });
  }
  const auto times = time_interleaved(
      rivals, {.repetitions = kRepetitions, .limit_seconds = kSeconds, .least_repetitions = kRepetitions});
  return {times[0].score_ms, times[1].score_ms};
}

struct Verdict {
  bool compared = false;
  double old_ms = 0, new_ms = 0;
  bool keep_old() const { return compared && new_ms >= old_ms; }
};

// Tuning measures layers, and on a machine that others use it may err: the new engine has to be faster as a
// whole, over all profiles.
Verdict compare(const std::shared_ptr<const Engine>& old_engine,
                const std::shared_ptr<const Engine>& new_engine, Log& log) {
  Verdict verdict{.compared = true};
  for (int profile = 0; profile < new_engine->profile_count(); ++profile) {
    const auto [before, after] = race(old_engine, new_engine, profile, log);
    verdict.old_ms += before;
    verdict.new_ms += after;
  }
  log.info(fmt::format("Timed in turns: the old engine takes {} ms, the new one {} ms; kept: the {} one.",
                       format_number(verdict.old_ms), format_number(verdict.new_ms),
                       verdict.keep_old() ? "old" : "new"));
  return verdict;
}

}  // namespace

int run_retune(const Words& words) {
  const CommandWords arguments(words, command_syntax("retune"));
  const std::string output = arguments.value("-o");
  const bool json = arguments.has("--json");
  if (arguments.positional().size() != 1 || output.empty())
    throw_input_error("retune takes an engine and -o: lathe retune old.engine -o new.engine");
  const std::string input = arguments.positional()[0];
  Words flags = arguments.passed();
  flags.push_back("--onnx=" + input);  // the parser wants a model; the graph comes from the engine
  const Options options = parse_options(flags);
  if (!options.refusals.empty()) throw_input_error(options.refusals.front());
  require_writable(output);

  std::FILE* const out = json ? stderr : stdout;  // with --json, standard output is for the result
  Log log(out, stderr, options.reporting.verbose ? nullptr : stderr);
  for (const auto& notice : options.notices) log.line(notice.severity, notice.text);
  log.set_verbose(options.reporting.verbose);
  BuildLog observer(log);
  const auto backend = open_device(options.system, options.build.tf32);
  Builder builder(backend, observer);
  const std::shared_ptr<const Plan> plan =
      Plan::read(input, open_plugins(options.system, &log, options.build.plugins_to_serialize));
  const Stoppable stoppable;
  BuildOptions build = make_build_options(options, {}, log);
  build.stop = stoppable.token();
  const auto engine = builder.retune(*plan, build);
  log.set_status("");
  const auto old_engine = as_it_was(plan, backend);
  const Verdict verdict = old_engine != nullptr ? compare(old_engine, engine, log) : Verdict();
  (verdict.keep_old() ? old_engine : engine)->save(output);
  const std::string& device = backend->target().description;
  log.info(
      fmt::format("Wrote {}, {} {}", output, verdict.keep_old() ? "unchanged, for" : "timed for", device));
  if (json) {
    Json result = {{"engine", output}, {"device", device}, {"kept", verdict.keep_old() ? "old" : "new"}};
    result["old_ms"] = verdict.compared ? Json(verdict.old_ms) : Json();
    result["new_ms"] = verdict.compared ? Json(verdict.new_ms) : Json();
    fmt::print("{}\n", dump_json(result));
  }
  return 0;
}

}  // namespace lathe::cli
