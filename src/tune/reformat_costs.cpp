// SPDX-License-Identifier: Apache-2.0
#include "tune/reformat_costs.h"

#include <algorithm>

#include "ir/edit.h"
#include "tune/candidates.h"
#include "tune/pbqp.h"

namespace lathe {
namespace {

// Reformats are many and cheap: few repetitions, and only the two best guesses.
constexpr size_t kTactics = 2;
constexpr int kRepetitions = 4;
constexpr double kLimitSeconds = 0.05;

}  // namespace

Graph reformat_graph(const std::string& name, const Shape& shape, const TensorType& from,
                     const TensorType& to) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", from.dtype, shape);
  editor.set_type(x, from.dtype, from.format);
  const NodeId node = editor.add_node(
      name, Reformat{}, {x}, {{.name = "y", .dtype = to.dtype, .shape = shape, .format = to.format}}, {});
  editor.mark_output(graph.node(node).outputs[0]);
  return graph;
}

ReformatCosts::ReformatCosts(const Graph& graph, const SymbolRanges& ranges, const Backend& backend,
                             const TuneOptions& options, const Effort& effort, Measurer& measurer,
                             WorkspaceLimit& workspace)
    : graph_(graph),
      ranges_(ranges),
      backend_(backend),
      options_(options),
      effort_(effort),
      measurer_(measurer),
      workspace_(workspace) {}

const ReformatCosts::Answer& ReformatCosts::find(ValueId value, const TensorType& from,
                                                 const TensorType& to) {
  return from == to ? none_ : find_or_ask(value, from, to);
}

const ReformatCosts::Answer& ReformatCosts::find_copy(ValueId value, const TensorType& type) {
  return find_or_ask(value, type, type);
}

const ReformatCosts::Answer& ReformatCosts::find_or_ask(ValueId value, const TensorType& from,
                                                        const TensorType& to) {
  const Value& v = graph_.value(value);
  const std::string key = lathe::to_string(v.shape) + " " + to_string(from) + " " + to_string(to);
  if (const auto it = answers_.find(key); it != answers_.end()) return it->second;
  return answers_[key] = ask(v, from, to);
}

ReformatCosts::Answer ReformatCosts::ask(const Value& value, const TensorType& from, const TensorType& to) {
  const Graph graph = reformat_graph("Reformat", value.shape, from, to);
  const LayerQuery query{graph, graph.order()[0], ranges_};
  std::vector<Tactic> tactics, last_resorts;
  for (Tactic& t : backend_.tactics(query)) {
    if (!t.support.ok || t.inputs != std::vector{from} || t.outputs != std::vector{to}) continue;
    if (options_.disabled_runners.contains(t.runner)) continue;
    if (t.is_view && from == to) continue;  // a copy was asked for
    (t.last_resort ? last_resorts : tactics).push_back(std::move(t));
  }
  if (tactics.empty()) tactics = std::move(last_resorts);
  std::erase_if(tactics, [&](const Tactic& t) { return !workspace_.refusal(query, t).empty(); });
  if (tactics.empty()) return {.ms = kImpossible};
  if (tactics.size() > kTactics) tactics.resize(kTactics);

  std::vector<double> times;
  if (effort_.timed)
    times = measurer_.times(query, tactics,
                            {.repetitions = kRepetitions, .limit_seconds = kLimitSeconds, .announce = false});
  if (times.empty())
    for (size_t i = 0; i < tactics.size(); ++i) times.push_back(estimated_ms(query, tactics[i], i));
  const size_t best = static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  if (times[best] >= kImpossible) return {.ms = kImpossible};
  return {.ms = times[best], .tactic = tactics[best]};
}

}  // namespace lathe
