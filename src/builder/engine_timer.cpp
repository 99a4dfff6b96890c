// SPDX-License-Identifier: Apache-2.0
#include "builder/engine_timer.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include "backend/open_size.h"
#include "backend/storage_layout.h"
#include "base/error.h"
#include "base/hash.h"
#include "ir/dim_clamps.h"
#include "ir/text.h"
#include "reference/random_input.h"
#include "tune/timer.h"
#include "tune/tune.h"

namespace lathe {
namespace {

constexpr int kRepetitions = 20;
constexpr double kSeconds = 2;  // per engine
constexpr int kRunsInARow = 4;
// A whole engine that takes so much more than its layers was timed in a slow phase (TuningTraits): it is
// timed again after a pause.
constexpr double kSlowPhase = 1.1;
constexpr int kTurns = 3;
constexpr std::chrono::milliseconds kPause(400);

// One engine with its memory, ready to run.
class TimedEngine {
 public:
  TimedEngine(const BuiltVariant& built, const Backend& backend)
      : backend_(backend),
        stream_(backend.create_stream()),
        begin_(backend.create_event()),
        end_(backend.create_event()),
        execution_(built.program->create_execution()) {
    const Graph& graph = *built.variant.graph;
    SymbolValues opt;
    SymbolRanges at_opt;
    for (const auto& [symbol, range] : built.variant.ranges) {
      opt[symbol] = range.opt;
      at_opt[symbol] = {.min = range.opt, .opt = range.opt, .max = range.opt};
    }
    const std::vector<Tensor> inputs = random_inputs(graph, opt, 1);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor stored = in_format(inputs[i], graph.value(graph.inputs()[i]).format);
      const auto bytes = stored.bytes();
      buffers_.push_back(backend.allocate(std::max<size_t>(64, bytes.size())));
      backend.copy_to_device(buffers_.back()->data(), bytes.data(), bytes.size(), *stream_);
    }
    for (const ValueId id : graph.outputs()) {
      Extents most;
      for (const Dim& d : graph.value(id).shape) most.push_back(largest(d, at_opt));
      // What has an open size lies in memory of the execution.
      const Value& value = graph.value(id);
      const int64_t bytes =
          has_open_size(value, built.variant.ranges) ? 0 : storage_bytes(value.dtype, most, value.format);
      buffers_.push_back(backend.allocate(std::max<size_t>(64, static_cast<size_t>(bytes))));
    }
    for (const auto& b : buffers_) bindings_.push_back(b->data());
    execution_->set_shapes(opt);
    // A device may run eagerly first and record the second run; neither is what the engine takes.
    for (int i = 0; i < 2; ++i) run_ms();
  }

  // On a device, queries follow each other closely, and the first one, which finds a rival's weights in the
  // caches, does not count. The host's caches are so small beside an engine that this makes no difference
  // there.
  double run_ms() {
    const int runs = backend_.is_host() ? 1 : kRunsInARow;
    if (runs > 1) execution_->run(bindings_, *stream_);
    begin_->record(*stream_);
    for (int i = 0; i < runs; ++i) execution_->run(bindings_, *stream_);
    end_->record(*stream_);
    end_->synchronize();
    return end_->elapsed_ms(*begin_) / runs;
  }

 private:
  const Backend& backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<TimeEvent> begin_, end_;
  std::unique_ptr<Execution> execution_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<void*> bindings_;
};

TimingCache::Key key_of(const BuiltVariant& built, const Backend& backend, const std::string& race) {
  std::string text = to_text(*built.variant.graph);
  for (const Choice& c : built.variant.choices) text += "\n" + c.tactic.name;
  for (const auto& [symbol, range] : built.variant.ranges)
    text += "\n" + symbol + "=" + std::to_string(range.opt);
  if (built.variant.split.on()) text += "\nparts of " + std::to_string(built.variant.split.part);
  return {timing_target(backend.target()), hash_text(text), hash_text("whole engine" + race)};
}

// From the cache, all or none: what is compared was measured together.
bool look_up(const std::vector<BuiltVariant*>& variants, const Pipeline& pipeline, const std::string& race) {
  std::vector<double> known;
  for (const BuiltVariant* v : variants)
    if (const auto ms = pipeline.cache.find(key_of(*v, pipeline.backend, race))) known.push_back(*ms);
  if (known.size() != variants.size()) return false;
  for (size_t i = 0; i < variants.size(); ++i) variants[i]->variant.measured_ms = known[i];
  return true;
}

void measure(const std::vector<BuiltVariant*>& variants, const Pipeline& pipeline, const std::string& race) {
  std::vector<std::unique_ptr<TimedEngine>> engines;
  std::vector<std::function<double()>> rivals;
  for (const BuiltVariant* v : variants) {
    engines.push_back(std::make_unique<TimedEngine>(*v, pipeline.backend));
    rivals.push_back([engine = engines.back().get(), &pipeline] {
      stop_if_asked(pipeline.stop);
      return engine->run_ms();
    });
  }
  const int turns = pipeline.backend.tuning_traits().has_slow_phases ? kTurns : 1;
  std::vector<double> times_ms(variants.size(), HUGE_VAL);
  for (int turn = 0; turn < turns; ++turn) {
    pipeline.observer.on(Progress{"Timing whole engines", turn, turns});
    if (turn > 0) std::this_thread::sleep_for(kPause);
    const auto timings =
        time_interleaved(rivals, {.repetitions = kRepetitions,
                                  .limit_seconds = kSeconds * static_cast<double>(variants.size()),
                                  .least_repetitions = kRepetitions});
    bool slow = false;
    for (size_t i = 0; i < variants.size(); ++i) {
      times_ms[i] = std::min(times_ms[i], std::max(timings[i].score_ms, 1e-6));
      slow |= times_ms[i] > kSlowPhase * variants[i]->variant.predicted_ms(pipeline.backend.target().threads);
    }
    if (!slow) break;
  }
  pipeline.observer.on(Progress{"Timing whole engines", turns, turns});
  for (size_t i = 0; i < variants.size(); ++i)
    variants[i]->variant.measured_ms =
        pipeline.cache.insert(key_of(*variants[i], pipeline.backend, race), times_ms[i],
                              "whole engine '" + variants[i]->variant.graph->name() + "'");
}

// Made-up inputs may be none that the model takes, where shapes are data: then what the layers sum up to has
// to do.
bool try_to_measure(const std::vector<BuiltVariant*>& variants, const Pipeline& pipeline,
                    const std::string& race) try {
  measure(variants, pipeline, race);
  return true;
} catch (const Error& error) {
  if (error.kind() != ErrorKind::Input) throw;
  pipeline.observer.log(Severity::Info,
                        std::string("Whole engines are not timed: with random inputs, ") + error.what());
  return false;
}

}  // namespace

void time_engines(const std::vector<BuiltVariant*>& variants, const Pipeline& pipeline,
                  const std::string& race) {
  if (!look_up(variants, pipeline, race) && !try_to_measure(variants, pipeline, race)) return;
  for (const BuiltVariant* v : variants) {
    const double predicted = v->variant.predicted_ms(pipeline.backend.target().threads),
                 measured = v->variant.measured_ms;
    char text[160];
    snprintf(text, sizeof text, "Predicted %.6g ms (the sum of %zu layers), measured %.6g ms: %.0f %%.",
             predicted, v->variant.choices.size(), measured, predicted / measured * 100);
    pipeline.observer.log(Severity::Info, text);
  }
}

BuiltVariant fastest_engine(std::vector<RivalEngine> rivals, const Pipeline& pipeline,
                            const std::string& race) {
  std::vector<BuiltVariant*> all;
  for (RivalEngine& rival : rivals) all.push_back(&rival.built);
  time_engines(all, pipeline, race);
  const auto time_of = [&](const RivalEngine& rival) {
    const PlanVariant& v = rival.built.variant;
    return v.measured_ms > 0 ? v.measured_ms : v.predicted_ms(pipeline.backend.target().threads);
  };
  size_t best = 0;
  std::string text;
  for (size_t i = 0; i < rivals.size(); ++i) {
    const double ms = time_of(rivals[i]);
    if (ms < time_of(rivals[best])) best = i;
    char time[32];
    snprintf(time, sizeof time, " %.6g ms", ms);
    text += (i == 0 ? " " : ", ") + rivals[i].label + time;
  }
  pipeline.observer.log(Severity::Info, "Whole engines:" + text + "; kept: " + rivals[best].label + ".");
  return std::move(rivals[best].built);
}

}  // namespace lathe
