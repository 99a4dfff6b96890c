// SPDX-License-Identifier: Apache-2.0
#include "memory/lifetimes.h"

namespace lathe {

std::vector<Lifetime> find_lifetimes(const Graph& graph, const ViewAnalysis& views) {
  std::vector<Lifetime> lives(graph.value_count());
  const auto touch = [&](ValueId v, int step) {
    if (v == kNoValue) return;
    Lifetime& life = lives[static_cast<size_t>(views.storage[static_cast<size_t>(v)].root)];
    if (life.first < 0) life.first = step;
    life.last = step;
  };
  for (size_t i = 0; i < graph.order().size(); ++i) {
    const Node& node = graph.node(graph.order()[i]);
    for (const ValueId v : node.inputs) touch(v, static_cast<int>(i));
    for (const ValueId v : node.outputs) touch(v, static_cast<int>(i));
  }
  return lives;
}

}  // namespace lathe
