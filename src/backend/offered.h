// SPDX-License-Identifier: Apache-2.0
//
// Choices may come from a file that others made. A kernel believes what its family's list() promises (types,
// formats, instructions that exist, operands that are constants), so a program asks the family again before
// it makes the kernel.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend/no_elements.h"
#include "backend/program.h"

namespace lathe {

// Yes when `listed` has the tactic with these types, supported; no with the reason.
Support is_offered(std::span<const Tactic> listed, const Tactic& tactic);
// Throws Input that names layer and tactic.
void require_offered(const Support& support, const Node& layer, const Tactic& tactic);
// The graph as list() may see it. A final graph has one type for each value, while the tuner's had the
// model's own types and layers that may mix them: so a layer is asked about all types that its tactic has,
// first as it is, then, where values have 16 bits, with all of them in FP32.
std::vector<Graph> graphs_to_ask(const Graph& graph, std::span<const Choice> choices);
// The same of a body, whose nodes have tactics.
std::vector<Graph> graphs_to_ask(const Graph& graph, std::span<const Tactic> tactics);
[[noreturn]] void throw_unknown_family(const Node& layer, const Tactic& tactic);

// What all families list for the layer, supported and refused, in their order.
template <class Family, class Device>
std::vector<Tactic> list_all(const std::vector<Family>& families, const LayerQuery& query,
                             const Device& device) {
  std::vector<Tactic> listed;
  for (const Family& family : families)
    if (may_list(family.runner, query))
      for (Tactic& tactic : family.list(query, device)) listed.push_back(std::move(tactic));
  return listed;
}

// Throws Input unless one of a backend's families offers the tactic for the layer in one of the graphs.
// Families have a runner, list(query, device) and, where that depends on more than the layer, accepts(query,
// tactic, device).
template <class Family, class Device>
void check_choice(const std::vector<Family>& families, const std::vector<Graph>& graphs, NodeId layer,
                  const SymbolRanges& ranges, const Tactic& tactic, const Device& device) {
  std::optional<Support> answer;
  for (const Family& family : families)
    for (const Graph& graph : graphs) {
      if (family.runner != tactic.runner) continue;
      const LayerQuery query{graph, layer, ranges};
      if (!may_list(family.runner, query)) {
        answer = Support::no("an operand has no elements at the shapes that the engine was tuned for");
        continue;
      }
      answer = family.accepts ? family.accepts(query, tactic, device)
                              : is_offered(family.list(query, device), tactic);
      if (answer->ok) return;
    }
  if (!answer) throw_unknown_family(graphs[0].node(layer), tactic);
  require_offered(*answer, graphs[0].node(layer), tactic);
}

}  // namespace lathe
