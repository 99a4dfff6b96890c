// SPDX-License-Identifier: Apache-2.0
#include "tune/reformat_costs.h"

#include <algorithm>
#include <set>

#include "ir/edit.h"
#include "tune/candidates.h"
#include "tune/pbqp.h"

namespace lathe {
namespace {

// Reformats are many and cheap: few repetitions, and only the two best guesses.
constexpr size_t kTactics = 2;
constexpr int kRepetitions = 4;
constexpr double kLimitSeconds = 0.05;

// The time does not depend on scales, but the tactic is asked with them.
std::string key_of(const Value& value, const TensorType& from, const TensorType& to) {
  const std::string grid = value.quantization ? " " + to_string(*value.quantization) : "";
  return to_string(value.shape) + " " + to_string(from) + " " + to_string(to) + grid;
}

}  // namespace

Graph reformat_graph(const std::string& name, const Value& value, const TensorType& from,
                     const TensorType& to) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", from.dtype, value.shape);
  editor.set_type(x, from.dtype, from.format);
  editor.set_quantization(x, value.quantization);
  const NodeId node = editor.add_node(name, Reformat{}, {x},
                                      {{.name = "y",
                                        .dtype = to.dtype,
                                        .shape = value.shape,
                                        .format = to.format,
                                        .quantization = value.quantization}},
                                      {});
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
  const std::string key = key_of(v, from, to);
  if (const auto it = answers_.find(key); it != answers_.end()) return it->second;
  return answers_[key] = ask(v, from, to);
}

void ReformatCosts::expect(const std::vector<Conversion>& conversions) {
  if (!effort_.timed || measurer_.out_of_time()) return;
  ahead_.reset();
  expected_.clear();
  std::vector<TimingTask> tasks;
  std::set<std::string> seen;
  for (const auto& [id, from, to] : conversions) {
    const Value& value = graph_.value(id);
    const std::string key = key_of(value, from, to);
    if (from == to || answers_.contains(key) || !seen.insert(key).second) continue;
    expected_.push_back(reformat_graph("Reformat", value, from, to));
    const LayerQuery query{expected_.back(), expected_.back().order()[0], ranges_};
    for (Tactic& t : tactics_for(query, from, to))
      if (!measurer_.is_known(query, t)) tasks.push_back({query, std::move(t)});
  }
  if (!tasks.empty()) ahead_ = backend_.prepare_ahead(std::move(tasks));
}

std::vector<Tactic> ReformatCosts::tactics_for(const LayerQuery& query, const TensorType& from,
                                               const TensorType& to) {
  std::vector<Tactic> tactics, last_resorts;
  for (Tactic& t : backend_.tactics(query)) {
    if (!t.support.ok || t.inputs != std::vector{from} || t.outputs != std::vector{to}) continue;
    if (options_.disabled_runners.contains(t.runner)) continue;
    if (t.is_view && from == to) continue;  // a copy was asked for
    (t.last_resort ? last_resorts : tactics).push_back(std::move(t));
  }
  if (tactics.empty()) tactics = std::move(last_resorts);
  std::erase_if(tactics, [&](const Tactic& t) { return !workspace_.refusal(query, t).empty(); });
  if (tactics.size() > kTactics) tactics.resize(kTactics);
  return tactics;
}

ReformatCosts::Answer ReformatCosts::ask(const Value& value, const TensorType& from, const TensorType& to) {
  const Graph graph = reformat_graph("Reformat", value, from, to);
  const LayerQuery query{graph, graph.order()[0], ranges_};
  const std::vector<Tactic> tactics = tactics_for(query, from, to);
  if (tactics.empty()) return {.ms = kImpossible};

  std::vector<double> times;
  if (effort_.timed)
    times = measurer_.times(query, tactics,
                            {.repetitions = kRepetitions, .limit_seconds = kLimitSeconds, .announce = false});
  if (times.empty())
    for (size_t i = 0; i < tactics.size(); ++i)
      times.push_back(estimated_ms(backend_.tuning_traits(), query, tactics[i], i));
  const size_t best = static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  if (times[best] >= kImpossible) return {.ms = kImpossible};
  return {.ms = times[best], .tactic = tactics[best]};
}

}  // namespace lathe
