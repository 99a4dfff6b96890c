// SPDX-License-Identifier: Apache-2.0
//
//   LayerNorm, Attention + Clip, RoundTo  ->  the same with epilogue {Clip[..](0) RoundTo[..](1)}
//                        + RoundToE4M3    ->  the same with epilogue {RoundToE4M3[..](0)}
//
// so that what a quantised product reads is stored as bytes by the layer that computes it. Convolutions and
// products take their roundings as they take any tail.
//
// Must not fire when others read what the layer gives as it is, when the rounding reads more than that, or
// when the layer has other results.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool takes_rounding(const Node& node) {
  if (!std::holds_alternative<LayerNorm>(node.op) && !std::holds_alternative<Attention>(node.op))
    return false;
  return node.epilogue.empty() && std::all_of(node.outputs.begin() + 1, node.outputs.end(),
                                              [](ValueId output) { return output == kNoValue; });
}

}  // namespace

bool fuse_rounding(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed || !takes_rounding(graph.node(id))) continue;
    const auto user = sole_user(graph, graph.node(id).outputs[0]);
    if (user && only_rounds(program_of(graph.node(*user))))
      changed |= append_to_epilogue(graph, context, id, *user);
  }
  return changed;
}

}  // namespace lathe
