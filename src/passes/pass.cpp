// SPDX-License-Identifier: Apache-2.0
//
// The runner. Everything that all passes need and none should do itself: clean up, verify, time, report,
// dump, and the switches that find a wrong rewrite by bisection.
#include "passes/pass.h"

#include <algorithm>

#include "base/error.h"
#include "base/stopwatch.h"
#include "ir/edit.h"
#include "ops/build.h"
#include "passes/check_equivalence.h"

namespace lathe {
namespace {

// A stage ends when a round changes nothing. Every pass makes a graph smaller or moves towards a form that it
// leaves alone, so this bound only guards against two passes that undo each other.
constexpr int kMaxRounds = 12;

int layer_count(const Graph& graph) {
  return static_cast<int>(graph.order().size());
}

bool run_pass(Graph& graph, const Pass& pass, const PassOptions& options, PassContext& context) {
  if (options.disabled.contains(pass.name)) return false;
  const Stopwatch watch;
  context.label = pass.label;
  std::optional<Graph> before;
  if (options.verify_with_oracle) before = graph;
  bool changed = false;
  try {
    changed = pass.run(graph, context);
    if (changed) {
      GraphEditor(graph).remove_dead_nodes();
      verify_graph(graph);
      if (before) check_equivalence(*before, graph, context.pool);
    }
  } catch (Error& error) {
    error.add_context("in pass " + std::string(pass.name));
    throw;
  }
  const bool dump = options.dump_after.contains(pass.name) || (changed && options.dump_after.contains("all"));
  if (dump && options.dump) options.dump(pass.name, graph);
  context.observer.on(PassFinished{std::string(pass.name), changed, watch.seconds(), layer_count(graph)});
  return changed;
}

void reject_unknown_names(const std::vector<Stage>& stages, const PassOptions& options) {
  std::set<std::string_view> known = {"all"};
  std::string list;
  for (const Stage& stage : stages) {
    for (const Pass& pass : stage.passes) {
      if (known.insert(pass.name).second) list += (list.empty() ? "" : ", ") + std::string(pass.name);
    }
  }
  for (const auto* names : {&options.disabled, &options.dump_after}) {
    for (const std::string& name : *names) {
      if (!known.contains(name)) throw_input_error("there is no pass \"" + name + "\" (known: " + list + ")");
    }
  }
}

// Unused layers are gone: this is the graph that the passes optimise.
void report_construction(Observer& observer, double seconds) {
  char text[80];
  snprintf(text, sizeof text, "Graph construction completed in %g seconds.", seconds);
  observer.log(Severity::Verbose, text);
}

}  // namespace

bool PassContext::may_change() {
  if (changes_left == 0) return false;
  if (changes_left > 0) --changes_left;
  ++changes;
  return true;
}

bool PassContext::has_operator(std::string_view name) const {
  return std::find(backend_operators.begin(), backend_operators.end(), name) != backend_operators.end();
}

void PassContext::report_fusion(const Graph& graph, NodeId first, NodeId second) {
  observer.on(FusionApplied{std::string(label), graph.node(first).name, graph.node(second).name});
}

void PassContext::report_removal(const Graph& graph, NodeId node) {
  observer.on(LayerRemoved{std::string(label), graph.node(node).name});
}

void run_passes(Graph& graph, const std::vector<Stage>& stages, const PassOptions& options,
                PassContext& context) {
  reject_unknown_names(stages, options);
  const Stopwatch watch;
  context.changes_left = options.stop_after;
  context.observer.on(StageFinished{"Original", layer_count(graph)});
  for (const Stage& stage : stages) {
    bool changed = true;
    for (int round = 0; changed && round < kMaxRounds; ++round) {
      changed = false;
      for (const Pass& pass : stage.passes) changed |= run_pass(graph, pass, options, context);
    }
    context.observer.on(StageFinished{std::string(stage.label), layer_count(graph)});
    if (&stage == &stages.front()) report_construction(context.observer, watch.seconds());
  }
  context.observer.on(GraphOptimized{watch.seconds()});
}

}  // namespace lathe
