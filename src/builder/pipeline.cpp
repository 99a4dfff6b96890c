// SPDX-License-Identifier: Apache-2.0
#include "builder/pipeline.h"

#include <chrono>

#include "ir/substitute.h"
#include "memory/memory_plan.h"
#include "ops/build.h"
#include "tune/tune.h"

namespace lathe {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Symbols that the profile fixes become constants, so that what depends on them folds. A split batch stays a symbol: the program
// knows by it what to split.
void fix_symbols(Graph& graph, const SymbolRanges& ranges, const BatchSplit& split) {
  DimReplacements fixed;
  for (const auto& [symbol, range] : ranges)
    if (range.min == range.max && symbol != split.symbol) fixed.emplace(symbol, Dim(range.min));
  if (fixed.empty()) return;
  substitute_dims(graph, fixed);
  infer_shapes(graph);
}

bool is_optional(std::string_view pass) {
  for (const Stage& stage : optional_stages())
    for (const Pass& p : stage.passes)
      if (p.name == pass) return true;
  return false;
}

// The part of the options that speaks of optional passes, or of the others. A limit of rewrites is for finding a wrong one among
// those that are made in any case.
PassOptions options_of(PassOptions options, bool optional) {
  for (auto* names : {&options.disabled, &options.dump_after})
    std::erase_if(*names,
                  [&](const std::string& name) { return name != "all" && is_optional(name) != optional; });
  if (optional && options.stop_after >= 0) options.stop_after = 0;
  return options;
}

}  // namespace

Graph optimize(const Graph& portable, const SymbolRanges& ranges, const std::vector<DType>& types,
               const BuildOptions& options, const Pipeline& pipeline, const BatchSplit& split) {
  Graph graph = portable;
  fix_symbols(graph, ranges, split);
  PassContext context(pipeline.observer, pipeline.pool);
  context.allowed_types = types;
  context.backend_operators = pipeline.backend.own_operators();
  run_passes(graph, default_stages(), options_of(options.passes, false), context);
  verify_graph(graph);
  return graph;
}

namespace {

// The graph with all optional rewrites, for the tuner to choose among; what comes of them is its to tell.
Graph optional_rewrites(const Graph& graph, const BuildOptions& options, const Pipeline& pipeline) {
  Graph fused = graph;
  NullObserver quiet;
  PassContext context(quiet, pipeline.pool);
  run_passes(fused, optional_stages(), options_of(options.passes, true), context);
  return fused;
}

TuneOptions tune_options(const BuildOptions& options) {
  return {.level = options.optimization_level,
          .max_tactics = options.max_tactics,
          .avg_timing = options.avg_timing,
          .budget_seconds = options.time_budget_seconds,
          .winograd = options.winograd,
          .error_on_cache_miss = options.error_on_timing_cache_miss,
          .workspace_limit_bytes = options.workspace_limit_bytes,
          .disabled_runners = options.disabled_runners};
}

// Arena and scratch of one context at the profile's largest shapes.
int64_t largest_device_bytes(const Program& program, const SymbolRanges& ranges) {
  SymbolValues most;
  for (const auto& [symbol, range] : ranges) most[symbol] = range.max;
  const auto execution = program.create_execution();
  execution->set_shapes(most);
  return execution->device_bytes();
}

std::string seconds_text(double seconds) {
  char text[32];
  snprintf(text, sizeof text, "%.6g", seconds);
  return text;
}

}  // namespace

BuiltVariant build_variant(const Graph& portable, const SymbolRanges& ranges, const std::vector<DType>& types,
                           const BuildOptions& options, const Pipeline& pipeline, const BatchSplit& split) {
  Observer& observer = pipeline.observer;
  const Graph graph = optimize(portable, ranges, types, options, pipeline, split);
  const Graph fused = optional_rewrites(graph, options, pipeline);
  const SymbolRanges tuned_ranges = part_ranges(ranges, split);
  const auto one_thread = split.on() ? pipeline.backend.one_thread() : nullptr;

  const Stopwatch tuning;
  TunedGraph tuned = tune_graph(graph, tuned_ranges, one_thread ? *one_thread : pipeline.backend,
                                tune_options(options), pipeline.cache, observer, &fused);
  observer.log(Severity::Verbose,
               "Formats and tactics selection completed in " + seconds_text(tuning.seconds()) + " seconds.");
  observer.on(StageFinished{"reformat layers", static_cast<int>(tuned.graph.order().size())});

  BuiltVariant result{.timed = tuned.timed};
  PlanVariant& variant = result.variant;
  variant.split = split;
  variant.memory = plan_memory(tuned.graph, tuned.choices, tuned_ranges);
  variant.graph = std::make_shared<Graph>(std::move(tuned.graph));
  variant.choices = std::move(tuned.choices);
  variant.ranges = ranges;
  variant.blobs = std::make_shared<PackedBlocks>();
  result.program = pipeline.backend.compile(variant.spec());
  const int64_t device_bytes = largest_device_bytes(*result.program, ranges);
  observer.on(
      MemoryPlanned{.arena_bytes = variant.memory.arena_bytes,
                    .weight_bytes = result.program->weight_bytes(),
                    .workspace_bytes = std::max<int64_t>(0, device_bytes - variant.memory.arena_bytes)});
  return result;
}

}  // namespace lathe
