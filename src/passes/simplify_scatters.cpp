// SPDX-License-Identifier: Apache-2.0
//
// A ScatterElements that sends whole rows is a ScatterND of rows, which reads one index for each:
//   ScatterElements(x [N, D], Expand(i [E, 1], [E, D]), updates [E, D], axis 0)  ->  ScatterND(x, i, updates)
// That is how exporters write what nodes of a graph receive over its edges (scatter_add of messages).
// Duplicates combine in the order of the updates in both.
//
// Must not fire when the axis is not the first, when the indices differ within a row, nor when the rows of
// the updates are shorter than those of x.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// What is expanded to `indices`, when it has one index for each row.
std::optional<ValueId> index_of_rows(const Graph& graph, ValueId indices) {
  if (producer_op<Expand>(graph, indices) == nullptr) return std::nullopt;
  const ValueId source = graph.node(graph.value(indices).producer).inputs[0];
  const Shape &narrow = graph.value(source).shape, &wide = graph.value(indices).shape;
  if (narrow.size() != wide.size() || wide.size() < 2 || narrow[0] != wide[0]) return std::nullopt;
  const bool one = std::all_of(narrow.begin() + 1, narrow.end(), [](const Dim& d) { return d == Dim(1); });
  return one ? std::optional(source) : std::nullopt;
}

bool scatter_rows(Graph& graph, PassContext& context, NodeId id) {
  const auto* op = plain_op<ScatterElements>(graph, id);
  if (!op) return false;
  const Node node = graph.node(id);
  const Shape &x = graph.value(node.inputs[0]).shape, &wide = graph.value(node.inputs[1]).shape;
  const auto rows = index_of_rows(graph, node.inputs[1]);
  if (!rows || positive_axis(graph, node.inputs[0], op->axis) != 0) return false;
  if (!std::equal(x.begin() + 1, x.end(), wide.begin() + 1, wide.end())) return false;
  if (!context.may_change()) return false;
  const ScatterND scatter{.reduction = op->reduction};
  const NodeId expand = graph.value(node.inputs[1]).producer;
  ValueId index = *rows;
  if (wide.size() > 2)
    index = insert_like(graph, id, "/rows", ReshapeOp{.shape = Shape{wide[0], Dim(1)}}, {index});
  replace_nodes(graph, context, {expand, id}, scatter, {node.inputs[0], index, node.inputs[2]});
  return true;
}

}  // namespace

bool simplify_scatters(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= scatter_rows(graph, context, id);
  return changed;
}

}  // namespace lathe
