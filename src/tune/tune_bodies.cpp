// SPDX-License-Identifier: Apache-2.0
//
// The budget is divided by what all layers are expected to cost, so that a second build with the same cache
// divides it alike.
#include "tune/tune_bodies.h"

#include <algorithm>

#include "backend/body_nodes.h"
#include "backend/nested_layers.h"
#include "ir/edit.h"
#include "tune/candidates.h"
#include "tune/level.h"

namespace lathe {
namespace {

// What it takes to time a layer that computes next to nothing, in the same unit as what layers take.
constexpr double kLeastCost = 0.3;

double timing_cost(const Graph& graph, const SymbolRanges& ranges, const TuningTraits& traits);

double bodies_cost(const Node& node, const SymbolRanges& ranges, const TuningTraits& traits) {
  double cost = 0;
  for (const Body& body : bodies_of(node.op))
    cost += timing_cost(body.graph(), ranges_inside(body.graph(), ranges), traits);
  return cost;
}

double timing_cost(const Graph& graph, const SymbolRanges& ranges, const TuningTraits& traits) {
  double cost = 0;
  for (const NodeId id : graph.order()) {
    const LayerQuery query{graph, id, ranges};
    const double inside = bodies_cost(query.layer(), ranges, traits);
    cost += kLeastCost + (inside > 0 ? inside : estimated_ms(traits, query, linear_tactic(query, "", ""), 0));
  }
  return cost;
}

// Operands and results are what the body's values are, and linear.
bool is_plain(const Graph& graph, const std::vector<ValueId>& values, const std::vector<TensorType>& types) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != kNoValue && types[i].dtype != DType::Undefined &&
        types[i] != TensorType{graph.value(values[i]).dtype, kLinear})
      return false;
  return true;
}

bool has_bodies(const Graph& graph) {
  return std::any_of(graph.order().begin(), graph.order().end(),
                     [&](NodeId id) { return !bodies_of(graph.node(id).op).empty(); });
}

}  // namespace

std::string body_refusal(const LayerQuery& query, const Tactic& tactic) {
  const Node& node = query.layer();
  if (wants_kernel(query.graph, node))
    return tactic.is_view ? "values of a body are no views of each other" : "";
  return is_plain(query.graph, node.inputs, tactic.inputs) &&
                 is_plain(query.graph, node.outputs, tactic.outputs)
             ? ""
             : "in a body it is evaluated on linear values";
}

TunedBodies tune_bodies(Graph& graph, const SymbolRanges& ranges, const Backend& backend,
                        const TuneOptions& options, TimingCache& cache, Observer& observer) {
  const TuningTraits traits = backend.tuning_traits();
  TunedBodies tuned;
  if (!traits.tunes_bodies || !has_bodies(graph)) return tuned;
  const double all = timing_cost(graph, ranges, traits), budget = effort_of(options).budget_seconds;
  GraphEditor editor(graph);
  for (const NodeId id : std::vector<NodeId>(graph.order())) {
    const Op op = graph.node(id).op;
    if (bodies_of(op).empty()) continue;
    std::vector<std::vector<Tactic>>& tactics = tuned.tactics[id];
    std::vector<TuningRecord> records;
    editor.set_op(id, map_bodies(op, [&](const Graph& body) {
                    const SymbolRanges inside = ranges_inside(body, ranges);
                    const double share = timing_cost(body, inside, traits) / all;
                    TuneOptions own = options;
                    own.in_body = true;
                    own.layer_types = {};  // the passes have marked none
                    own.budget_seconds = budget * share;
                    tuned.share += share;
                    TunedGraph result = tune_graph(body, inside, backend, own, cache, observer);
                    tactics.emplace_back();
                    for (Choice& choice : result.choices) tactics.back().push_back(std::move(choice.tactic));
                    records.push_back(std::move(result.tried));
                    return std::move(result.graph);
                  }));
    Tactic layer;
    layer.bodies = tactics;
    for (const NestedLayer& nested : nested_layers(graph.node(id), layer))
      for (TuningRecord& record : records)
        if (const auto found = record.find(nested.graph->node(nested.node).name); found != record.end())
          tuned.tried.emplace(nested.name, found->second);
  }
  return tuned;
}

}  // namespace lathe
