// SPDX-License-Identifier: Apache-2.0
//
// A segment ends behind each layer that determines a dim and runs; a view cannot know more than its input.
#include "backend/segments.h"

#include <set>
#include <utility>

namespace lathe {

Segments find_segments(const ProgramSpec& spec, Cut cut) {
  const Graph& graph = *spec.graph;
  const std::vector<NodeId>& order = graph.order();
  std::set<std::string> known;
  const auto add_names = [&](ValueId id, std::vector<std::string>* fresh) {
    if (id == kNoValue) return;
    for (const Dim& dim : graph.value(id).shape)
      for (const std::string& name : dim.data_dependent_names())
        if (known.insert(name).second && fresh != nullptr) fresh->push_back(name);
  };
  for (const ValueId input : graph.inputs()) add_names(input, nullptr);
  Segments segments;
  segments.new_symbols.resize(order.size());
  size_t begin = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    for (const ValueId output : graph.node(order[i]).outputs) add_names(output, &segments.new_symbols[i]);
    if (segments.new_symbols[i].empty() || spec.choices[i].tactic.is_view) continue;
    if (cut == Cut::Around && (i > begin || i == 0)) segments.ranges.emplace_back(std::exchange(begin, i), i);
    segments.ranges.emplace_back(begin, i + 1);
    begin = i + 1;
  }
  if (begin < order.size() || segments.ranges.empty()) segments.ranges.emplace_back(begin, order.size());
  return segments;
}

}  // namespace lathe
