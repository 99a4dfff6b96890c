// SPDX-License-Identifier: Apache-2.0
//
// Replaces a chain of reshapes and transposes by the shortest chain that moves elements in the same way.
//
//   reshape(transpose(reshape(x)))  ->  x, one reshape, one transpose, or at most reshape + transpose +
//                                       reshape
//
// Right because a chain is determined by its map of atoms (shuffle_map.h). It must not fire when the result
// would be as long as the chain, nor remove values that somebody else reads. Of two as long, the one that
// puts an image's channels last before it joins its spatial dims is better, and so is the one that parts the
// spatial dims before it puts channels second: in channels-last format that moves nothing.
#include <algorithm>

#include "backend/view.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/shuffle_map.h"

namespace lathe {
namespace {

bool ends_chain(const Graph& graph, NodeId id) {
  if (!is_shuffle(graph.node(id))) return false;
  const ValueId output = graph.node(id).outputs[0];
  const std::vector<NodeId> users = graph.users(output);
  return graph.is_output(output) || users.size() != 1 || !is_shuffle(graph.node(users[0]));
}

// A transpose that only moves dims of size 1 is a reshape: a view.
bool improves(const Graph& graph, const std::vector<NodeId>& chain, const ShuffleMap::Chain& shorter) {
  if (shorter.length() < static_cast<int>(chain.size())) return true;
  if (shorter.length() != static_cast<int>(chain.size())) return false;
  int transposes = 0;
  for (const NodeId id : chain) transposes += std::holds_alternative<Transpose>(graph.node(id).op);
  if (transposes > (shorter.perm ? 1 : 0)) return true;
  if (!shorter.perm || shorter.perm->size() < 4) return false;
  const bool joins_first = std::holds_alternative<ReshapeOp>(graph.node(chain.front()).op);
  const bool parts_last = std::holds_alternative<ReshapeOp>(graph.node(chain.back()).op);
  return (joins_first && puts_channels_last(*shorter.perm) && !shorter.before) ||
         (parts_last && puts_channels_second(*shorter.perm) && !shorter.after);
}

bool simplify(Graph& graph, NodeId last, PassContext& context) {
  const Node& end = graph.node(last);
  const std::vector<NodeId> chain = shuffle_chain(graph, end.outputs[0]);
  const ValueId source = graph.node(chain.front()).inputs[0];
  ShuffleMap map(graph.value(source).shape);
  for (const NodeId id : chain)
    if (!map.apply(graph, id)) return false;
  if (!improves(graph, chain, map.shortest()) || !context.may_change()) return false;

  GraphEditor editor(graph);
  if (map.shortest().length() == 0 && !editor.can_replace_uses(end.outputs[0], source)) return false;
  std::vector<Origin> origins;
  for (const NodeId id : chain)
    for (const Origin& origin : graph.node(id).origins)
      if (std::find(origins.begin(), origins.end(), origin) == origins.end()) origins.push_back(origin);
  context.observer.on(FusionApplied{"ShuffleShuffleFusion", graph.node(chain.front()).name, end.name});
  const ValueId old = end.outputs[0];
  // Nodes that implement no ONNX node (what other passes put in) lend their name only when there is no other.
  std::string name;
  for (const NodeId id : chain)
    if (origins.empty() || !graph.node(id).origins.empty())
      name += (name.empty() ? "" : " + ") + graph.node(id).name;
  const std::string last_name = end.name;
  const ValueId moved = map.emit(editor, source, last_name, origins, last);
  editor.replace_uses(old, moved);
  remove_if_unread(graph, last);
  if (moved != source) editor.rename_node(graph.value(moved).producer, name);
  return true;
}

}  // namespace

bool simplify_shuffles(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed && ends_chain(graph, id)) changed |= simplify(graph, id, context);
  return changed;
}

}  // namespace lathe
