// SPDX-License-Identifier: Apache-2.0
#include "memory/slots.h"

#include <algorithm>
#include <limits>
#include <set>

#include "backend/open_size.h"

namespace lathe {

std::vector<GrownValue> find_grown_values(const Graph& graph, const ViewAnalysis& views,
                                          const std::vector<Lifetime>& lives, const SymbolRanges& ranges) {
  const auto root = [&](ValueId v) { return views.storage[static_cast<size_t>(v)].root; };
  std::set<ValueId> not_ours(graph.inputs().begin(), graph.inputs().end()), outputs;
  for (const ValueId v : graph.outputs()) outputs.insert(root(v));
  std::vector<GrownValue> values;
  for (size_t v = 0; v < lives.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (lives[v].first < 0 || root(id) != id || not_ours.contains(id) ||
        !has_open_size(graph.value(id), ranges))
      continue;
    values.push_back({id, lives[v]});
    if (outputs.contains(id)) values.back().life.last = std::numeric_limits<int>::max();
  }
  std::stable_sort(values.begin(), values.end(),
                   [](const GrownValue& a, const GrownValue& b) { return a.life.first < b.life.first; });
  return values;
}

std::vector<int> share_slots(const std::vector<GrownValue>& values) {
  std::vector<int> slots, last;  // last: by slot, the step that reads it last
  for (const GrownValue& value : values) {
    const auto free =
        std::find_if(last.begin(), last.end(), [&](int step) { return step < value.life.first; });
    const auto slot = free - last.begin();
    if (free == last.end()) last.push_back(0);
    last[static_cast<size_t>(slot)] = value.life.last;
    slots.push_back(static_cast<int>(slot));
  }
  return slots;
}

}  // namespace lathe
