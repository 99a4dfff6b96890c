// SPDX-License-Identifier: Apache-2.0
//
// A segment ends behind each layer that determines a dim and runs; a view cannot know more than its input.
#include "backend/segments.h"

#include <set>
#include <utility>

#include "ir/new_names.h"

namespace lathe {

Segments find_segments(const ProgramSpec& spec, Cut cut) {
  const Graph& graph = *spec.graph;
  const std::vector<NodeId>& order = graph.order();
  std::set<std::string> known;
  for (const ValueId input : graph.inputs())
    for (const Dim& dim : graph.value(input).shape) known.merge(dim.data_dependent_names());
  Segments segments;
  segments.new_symbols.resize(order.size());
  size_t begin = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    for (const std::string& name : new_names(graph, graph.node(order[i])))
      if (known.insert(name).second) segments.new_symbols[i].push_back(name);
    if (segments.new_symbols[i].empty() || spec.choices[i].tactic.is_view) continue;
    if (cut == Cut::Around && (i > begin || i == 0)) segments.ranges.emplace_back(std::exchange(begin, i), i);
    segments.ranges.emplace_back(begin, i + 1);
    begin = i + 1;
  }
  if (begin < order.size() || segments.ranges.empty()) segments.ranges.emplace_back(begin, order.size());
  return segments;
}

}  // namespace lathe
