// SPDX-License-Identifier: Apache-2.0
#include "backend/offered.h"

#include <algorithm>

#include "base/error.h"
#include "ir/edit.h"

namespace lathe {
namespace {

bool is_subset(const std::vector<int>& some, const std::vector<int>& all) {
  return std::all_of(some.begin(), some.end(),
                     [&](int i) { return std::find(all.begin(), all.end(), i) != all.end(); });
}

}  // namespace

Support is_offered(std::span<const Tactic> listed, const Tactic& tactic) {
  Support answer = Support::no("it is none of those for this layer");
  for (const Tactic& t : listed) {
    if (t.name != tactic.name || t.params != tactic.params || t.is_view != tactic.is_view ||
        !t.same_types(tactic) || !is_subset(tactic.in_place_inputs, t.in_place_inputs))
      continue;
    if (t.support.ok) return {};
    answer = t.support;
  }
  return answer;
}

void throw_unknown_family(const Node& layer, const Tactic& tactic) {
  throw_input_error("layer '" + layer.name + "': this build has no tactic family '" + tactic.runner + "'");
}

void require_offered(const Support& support, const Node& layer, const Tactic& tactic) {
  if (support.ok) return;
  throw_input_error("layer '" + layer.name + "' cannot run with tactic '" + tactic.name + "' of " +
                    tactic.runner + ": " + support.reason);
}

namespace {

// `tactics`: of the graph's layers, in order.
std::vector<Graph> graphs_to_ask(const Graph& graph, const std::vector<const Tactic*>& tactics) {
  std::vector<Graph> graphs = {graph};
  GraphEditor editor(graphs[0]);
  for (size_t i = 0; i < tactics.size(); ++i) {
    const NodeId id = graph.order()[i];
    std::vector<DType> types = graph.node(id).allowed_types;
    const auto allow = [&](const std::vector<TensorType>& operands) {
      for (const TensorType& t : operands)
        if (is_float(t.dtype) && dtype_info(t.dtype).bits >= 16 &&
            std::find(types.begin(), types.end(), t.dtype) == types.end())
          types.push_back(t.dtype);
    };
    allow(tactics[i]->inputs);
    allow(tactics[i]->outputs);
    if (types != graph.node(id).allowed_types) editor.set_allowed_types(id, std::move(types));
  }
  const auto is_narrow = [&](ValueId v) {
    const Value& value = graph.value(v);
    return !value.is_constant() &&
           (value.dtype == DType::BFloat16 || value.dtype == DType::Float16 || value.is_stored_quantized());
  };
  std::vector<ValueId> narrow;
  for (size_t v = 0; v < graph.value_count(); ++v)
    if (is_narrow(static_cast<ValueId>(v))) narrow.push_back(static_cast<ValueId>(v));
  if (narrow.empty()) return graphs;
  graphs.push_back(graphs[0]);
  GraphEditor wide(graphs[1]);
  for (const ValueId v : narrow) wide.set_type(v, DType::Float32, graph.value(v).format);
  return graphs;
}

}  // namespace

std::vector<Graph> graphs_to_ask(const Graph& graph, std::span<const Choice> choices) {
  std::vector<const Tactic*> tactics;
  for (const Choice& choice : choices) tactics.push_back(&choice.tactic);
  return graphs_to_ask(graph, tactics);
}

std::vector<Graph> graphs_to_ask(const Graph& graph, std::span<const Tactic> tactics) {
  std::vector<const Tactic*> all;
  for (const Tactic& tactic : tactics) all.push_back(&tactic);
  return graphs_to_ask(graph, all);
}

}  // namespace lathe
