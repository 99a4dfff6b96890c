// SPDX-License-Identifier: Apache-2.0
#include "builder/pipeline.h"

#include <algorithm>
#include <functional>

#include "backend/layer_scratch.h"
#include "backend/open_size.h"
#include "base/error.h"
#include "base/stopwatch.h"
#include "builder/io_formats.h"
#include "ir/dim_clamps.h"
#include "ir/substitute.h"
#include "ir/symbol_extents.h"
#include "memory/memory_plan.h"
#include "ops/build.h"
#include "ops/concrete_shapes.h"
#include "tune/fallback.h"
#include "tune/tune.h"

namespace lathe {
namespace {

// One of the three shapes of a profile.
struct ProfileShapes {
  const char* name;
  int64_t SymbolRange::*bound;
};
constexpr ProfileShapes kOptShapes = {"opt", &SymbolRange::opt}, kMaxShapes = {"max", &SymbolRange::max};

SymbolValues values_at(const SymbolRanges& ranges, const ProfileShapes& shapes) {
  SymbolValues values;
  for (const auto& [symbol, range] : ranges) values[symbol] = range.*shapes.bound;
  return values;
}

// An error of `body` says which shapes it is about.
void at_shapes(const SymbolRanges& ranges, const ProfileShapes& shapes, const std::function<void()>& body) {
  try {
    body();
  } catch (Error& error) {
    std::string text;
    for (const auto& [symbol, value] : values_at(ranges, shapes))
      text += (text.empty() ? "" : ", ") + symbol + " = " + std::to_string(value);
    if (!text.empty())
      error.add_context("at the " + std::string(shapes.name) + " shapes of the optimization profile (" +
                        text + ")");
    throw;
  }
}

// Symbols that the profile fixes become constants, so that what depends on them folds, and clamps that the
// profile's shapes never reach go, so that a table's min(seq, 512) rows are the seq rows that the table is
// added to. A split batch stays a symbol: the program knows by it what to split.
void apply_profile(Graph& graph, SymbolRanges ranges, const BatchSplit& split) {
  DimReplacements fixed;
  for (const auto& [symbol, range] : ranges)
    if (range.min == range.max && symbol != split.symbol) fixed.emplace(symbol, Dim(range.min));
  if (split.on()) ranges[split.symbol].min = std::min<int64_t>(ranges[split.symbol].min, 1);  // of a part
  bool changed = false;
  map_dims(graph, [&](const Dim& dim) {
    Dim mapped = without_idle_clamps(dim.substitute(fixed), ranges);
    changed |= !(mapped == dim);
    return mapped;
  });
  if (changed) infer_shapes(graph);
}

// More than the memory of any machine has room for.
constexpr int64_t kMostElements = int64_t{1} << 40;

// What only a run finds has an upper bound, which must be memory that can be counted.
void check_upper_bounds(const Graph& graph, const SymbolRanges& ranges) {
  const SymbolValues most = values_at(ranges, kMaxShapes);
  for (const NodeId id : graph.order())
    for (const ValueId output : graph.node(id).outputs) {
      if (output == kNoValue) continue;
      try {
        const Value& value = graph.value(output);
        if (has_open_size(value, ranges)) continue;
        const Extents extents = upper_extents(value.shape, most);
        if (element_count(extents) > kMostElements)
          throw_input_error("nothing bounds its " + to_string(value.shape) + ": at most " +
                            to_string(extents) + " elements");
      } catch (Error& error) {
        error.add_context("node '" + graph.node(id).name + "' (" +
                          std::string(op_display_name(graph.node(id).op)) + "): the upper bound of '" +
                          graph.value(output).name + "', whose size is not known before it runs");
        throw;
      }
    }
}

// Shapes that contradict each other are an error before anything is tuned for them, and named as the model
// names its nodes.
void check_profile(const Graph& graph, const SymbolRanges& ranges) {
  for (const ProfileShapes& shapes : {kOptShapes, kMaxShapes})
    at_shapes(ranges, shapes,
              [&] { check_concrete_shapes(graph, graph.order(), values_at(ranges, shapes)); });
  check_upper_bounds(graph, ranges);
}

bool is_optional(std::string_view pass) {
  for (const Stage& stage : optional_stages())
    for (const Pass& p : stage.passes)
      if (p.name == pass) return true;
  return false;
}

// The part of the options that speaks of optional passes, or of the others. A limit of rewrites is for
// finding a wrong one among those that are made in any case.
PassOptions options_of(PassOptions options, bool optional) {
  for (auto* names : {&options.disabled, &options.dump_after})
    std::erase_if(*names,
                  [&](const std::string& name) { return name != "all" && is_optional(name) != optional; });
  if (optional && options.stop_after >= 0) options.stop_after = 0;
  return options;
}

}  // namespace

namespace {

// Bodies go through the same passes; their layers compute in the types that they have. The log speaks of the
// graph around them.
void optimize_bodies(Graph& graph, const PassOptions& options, const PassContext& around) {
  GraphEditor editor(graph);
  for (const NodeId id : std::vector<NodeId>(graph.order())) {
    if (bodies_of(graph.node(id).op).empty()) continue;
    editor.set_op(id, map_bodies(graph.node(id).op, [&](const Graph& body) {
                    Graph inner = body;
                    NullObserver quiet;
                    PassContext context(quiet, around.pool);
                    context.backend_operators = around.backend_operators;
                    context.stacks_grids = around.stacks_grids;
                    run_passes(inner, default_stages(), options, context);
                    optimize_bodies(inner, options, around);
                    return inner;
                  }));
  }
}

}  // namespace

Graph optimize(const Graph& portable, const SymbolRanges& ranges, const std::vector<DType>& types,
               const BuildOptions& options, const Pipeline& pipeline, const BatchSplit& split) {
  Graph graph = portable;
  at_shapes(ranges, kOptShapes, [&] { apply_profile(graph, ranges, split); });
  check_profile(graph, ranges);
  PassContext context(pipeline.observer, pipeline.pool);
  context.allowed_types = types;
  context.layer_types = pipeline.layer_types;
  context.widened_types = pipeline.widened_types;
  context.backend_operators = pipeline.backend.own_operators();
  context.stacks_grids = pipeline.backend.stacks_grids();
  PassOptions pass_options = options_of(options.passes, false);
  run_passes(graph, default_stages(), pass_options, context);
  pass_options.dump_after.clear();
  optimize_bodies(graph, pass_options, context);
  verify_graph(graph);
  return graph;
}

Graph optional_rewrites(const Graph& graph, const BuildOptions& options, const Pipeline& pipeline) {
  Graph fused = graph;
  NullObserver quiet;
  PassContext context(quiet, pipeline.pool);
  run_passes(fused, optional_stages(), options_of(options.passes, true), context);
  return fused;
}

namespace {

TuneOptions tune_options(const BuildOptions& options, const LayerTypes& layer_types) {
  return {.level = options.optimization_level,
          .max_tactics = options.max_tactics,
          .avg_timing = options.avg_timing,
          .budget_seconds = options.time_budget_seconds,
          .winograd = options.winograd,
          .keep_nan = options.keep_nan,
          .error_on_cache_miss = options.error_on_timing_cache_miss,
          .workspace_limit_bytes = options.workspace_limit_bytes,
          .disabled_runners = options.disabled_runners,
          .layer_types = layer_types,
          .stop = options.stop};
}

int64_t constant_bytes(const Graph& graph, const Node& node) {
  int64_t bytes = 0;
  for (const ValueId id : node.inputs)
    if (id != kNoValue && graph.value(id).is_constant())
      bytes += static_cast<int64_t>(graph.value(id).constant.bytes().size());
  return bytes;
}

// What each layer keeps (its constants, as the graph has them) and its scratch memory.
std::vector<std::string> layer_memory(const Graph& graph, const Execution& execution, bool on_host) {
  const auto* teller = dynamic_cast<const LayerScratch*>(&execution);
  const std::vector<int64_t> scratch = teller ? teller->layer_scratch_bytes() : std::vector<int64_t>();
  std::vector<std::string> lines;
  for (size_t i = 0; i < graph.order().size(); ++i) {
    const Node& node = graph.node(graph.order()[i]);
    const int64_t kept = constant_bytes(graph, node), used = i < scratch.size() ? scratch[i] : 0;
    if (kept + used == 0) continue;
    lines.push_back("Layer: " + node.name + " Host Persistent: " + std::to_string(on_host ? kept : 0) +
                    " Device Persistent: " + std::to_string(on_host ? 0 : kept) +
                    " Scratch Memory: " + std::to_string(used));
  }
  lines.push_back(
      "Skipped printing memory information for " + std::to_string(graph.order().size() - lines.size()) +
      " layers with 0 memory size i.e. Host Persistent + Device Persistent + Scratch Memory == 0.");
  return lines;
}

// Of one context at the profile's largest shapes.
void describe_memory(BuiltVariant& built, bool on_host) {
  const PlanVariant& variant = built.variant;
  const auto execution = built.program->create_execution();
  execution->set_shapes(values_at(variant.ranges, kMaxShapes));
  const int64_t arena_bytes = variant.memory.arena_bytes;
  built.memory = {.arena_bytes = arena_bytes,
                  .weight_bytes = built.program->weight_bytes(),
                  .workspace_bytes = std::max<int64_t>(0, execution->device_bytes() - arena_bytes)};
  built.layer_memory = layer_memory(*variant.graph, *execution, on_host);
}

// Slices and concatenations that became views of their neighbours' memory: the layers that are left without
// them.
void report_views(const Graph& graph, const std::vector<Choice>& choices, Observer& observer) {
  auto left = static_cast<int>(choices.size());
  const auto remove = [&](auto is_kind) {
    for (size_t i = 0; i < choices.size(); ++i)
      if (choices[i].tactic.is_view && is_kind(graph.node(graph.order()[i]).op)) --left;
    return left;
  };
  const auto is_slice = [](const Op& op) {
    return std::holds_alternative<Slice>(op) || std::holds_alternative<Split>(op);
  };
  observer.on(StageFinished{"slice removal", remove(is_slice)});
  observer.on(StageFinished{"concat removal",
                            remove([](const Op& op) { return std::holds_alternative<Concat>(op); })});
}

std::string seconds_text(double seconds) {
  char text[32];
  snprintf(text, sizeof text, "%.6g", seconds);
  return text;
}

void explain_fallbacks(TunedGraph& tuned, const SymbolRanges& ranges, const Backend& backend,
                       const BuildOptions& options) {
  for (size_t i = 0; i < tuned.choices.size(); ++i)
    if (is_fallback(tuned.choices[i].tactic) &&
        !never_runs(tuned.graph, tuned.graph.node(tuned.graph.order()[i])))
      tuned.choices[i].fallback =
          fallback_reason(backend, {tuned.graph, tuned.graph.order()[i], ranges}, options.disabled_runners);
}

}  // namespace

BuiltVariant build_variant(const Graph& portable, const SymbolRanges& ranges, const std::vector<DType>& types,
                           const BuildOptions& options, const Pipeline& pipeline, const BatchSplit& split) {
  Observer& observer = pipeline.observer;
  Graph graph = optimize(portable, ranges, types, options, pipeline, split);
  Graph fused = optional_rewrites(graph, options, pipeline);
  apply_io_formats(graph, pipeline.io_formats);
  apply_io_formats(fused, pipeline.io_formats);
  const SymbolRanges tuned_ranges = part_ranges(ranges, split);
  const auto one_thread = split.on() ? pipeline.backend.one_thread() : nullptr;
  const Backend& backend = one_thread ? *one_thread : pipeline.backend;

  const Stopwatch tuning;
  TunedGraph tuned = tune_graph(graph, tuned_ranges, backend, tune_options(options, pipeline.layer_types),
                                pipeline.cache, observer, &fused);
  explain_fallbacks(tuned, tuned_ranges, backend, options);
  observer.log(Severity::Verbose,
               "Formats and tactics selection completed in " + seconds_text(tuning.seconds()) + " seconds.");
  report_views(tuned.graph, tuned.choices, observer);
  observer.on(StageFinished{"reformat layers", static_cast<int>(tuned.graph.order().size())});

  BuiltVariant result{.timed = tuned.timed};
  PlanVariant& variant = result.variant;
  variant.split = split;
  variant.memory = plan_memory(tuned.graph, tuned.choices, tuned_ranges);
  variant.graph = std::make_shared<Graph>(std::move(tuned.graph));
  variant.choices = std::move(tuned.choices);
  variant.ranges = ranges;
  variant.tuning = tuning_record_text(tuned.tried);
  variant.blobs = std::make_shared<PackedBlocks>();
  result.program = pipeline.backend.compile(variant.spec());
  describe_memory(result, pipeline.backend.is_host());
  return result;
}

}  // namespace lathe
