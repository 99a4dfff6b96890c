// SPDX-License-Identifier: Apache-2.0
#include "ir/new_names.h"

#include <algorithm>

#include "ir/substitute.h"

namespace lathe {

std::set<std::string> new_names(const Graph& graph, const Node& node) {
  std::set<std::string> names;
  for (const ValueId output : node.outputs)
    if (output != kNoValue)
      for (const Dim& dim : graph.value(output).shape)
        if (!dim.is_constant()) names.merge(dim.data_dependent_names());
  if (names.empty()) return names;
  for (const ValueId input : node.inputs)
    if (input != kNoValue)
      for (const Dim& dim : graph.value(input).shape)
        for (const std::string& known : dim.symbols()) names.erase(known);
  return names;
}

namespace {

void add_symbols(const Op& op, std::set<std::string>& names) {
  names.merge(symbols_of(op));
  for (const Body& body : bodies_of(op))
    for (const NodeId id : body.graph().order()) add_symbols(body.graph().node(id).op, names);
}

}  // namespace

std::set<std::string> awaited_names(const Graph& graph, const Node& node) {
  std::set<std::string> names;
  add_symbols(node.op, names);
  if (names.empty()) return names;
  for (const ValueId input : node.inputs)
    if (input != kNoValue)
      for (const Dim& dim : graph.value(input).shape)
        for (const std::string& known : dim.symbols()) names.erase(known);
  return names;
}

bool is_awaited(const Graph& graph, NodeId id) {
  std::set<std::string> found = new_names(graph, graph.node(id));
  for (const std::string& own : symbols_of(graph.node(id).op)) found.erase(own);
  if (found.empty()) return false;
  return std::any_of(graph.order().begin(), graph.order().end(), [&](NodeId other) {
    if (other == id) return false;
    const std::set<std::string> awaited = awaited_names(graph, graph.node(other));
    return std::any_of(found.begin(), found.end(),
                       [&](const std::string& name) { return awaited.contains(name); });
  });
}

}  // namespace lathe
