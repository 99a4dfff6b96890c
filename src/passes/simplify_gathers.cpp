// SPDX-License-Identifier: Apache-2.0
//
// A Gather of one known index is a Slice, and the Slice moves above Reshapes and Transposes:
//   Gather(Transpose(Reshape(x, [B, S, 3, E]), [2, 0, 1, 3]), 1, axis 0)  ->  Slice(x, [..., E:2E]) reshaped
// That is how exporters take q, k and v out of one product; as slices of the product they can become products
// of their own (split_matmuls). A Gather of all there is, in order, is a Reshape: windows of images that are
// one pixel wide are written with one.
//
// Must not fire when the index is negative and the dim is not known, nor when the part that is read is not
// contiguous along one dim of the source (ShuffleMap::select says so).
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/shuffle_map.h"

namespace lathe {
namespace {

std::optional<int64_t> known_index(const Graph& graph, const Node& node, const Gather& op) {
  const Value& indices = graph.value(node.inputs[1]);
  if (!indices.is_constant() || !indices.constant.has_bytes() || indices.constant.size() != 1)
    return std::nullopt;
  const int64_t index = indices.constant.to_int64s()[0];
  const Shape& shape = graph.value(node.inputs[0]).shape;
  const Dim& dim =
      shape[static_cast<size_t>(op.axis < 0 ? op.axis + static_cast<int64_t>(shape.size()) : op.axis)];
  if (!dim.is_constant()) return std::nullopt;  // a slice out of range would not be the Gather's error
  const int64_t resolved = index < 0 ? index + dim.value() : index;
  if (resolved < 0 || resolved >= dim.value()) return std::nullopt;
  return resolved;
}

bool takes_all_in_order(const Graph& graph, const Node& node, const Gather& op) {
  const Value &x = graph.value(node.inputs[0]), &indices = graph.value(node.inputs[1]);
  const Dim& dim = x.shape[static_cast<size_t>(positive_axis(graph, node.inputs[0], op.axis))];
  if (!indices.is_constant() || !indices.constant.has_bytes() || !dim.is_constant(indices.constant.size()))
    return false;
  int64_t next = 0;
  const std::vector<int64_t> given = indices.constant.to_int64s();
  return std::all_of(given.begin(), given.end(), [&](int64_t index) { return index == next++; });
}

bool to_reshape(Graph& graph, PassContext& context, NodeId id) {
  const Node node = graph.node(id);
  const auto* op = plain_op<Gather>(graph, id);
  if (!op || !takes_all_in_order(graph, node, *op) || !context.may_change()) return false;
  context.report_removal(graph, id);
  GraphEditor editor(graph);
  editor.set_op(id, ReshapeOp{.shape = graph.value(node.outputs[0]).shape});
  editor.set_inputs(id, {node.inputs[0]});
  return true;
}

bool simplify(Graph& graph, PassContext& context, NodeId id) {
  const Node node = graph.node(id);
  const auto* op = plain_op<Gather>(graph, id);
  if (!op) return false;
  const auto index = known_index(graph, node, *op);
  const size_t index_rank = graph.value(node.inputs[1]).shape.size();
  if (!index || index_rank > 1 || graph.value(node.inputs[0]).is_constant()) return false;

  std::vector<NodeId> chain;
  ValueId source = node.inputs[0];
  while (graph.value(source).producer != kNoNode && is_shuffle(graph.node(graph.value(source).producer))) {
    chain.insert(chain.begin(), graph.value(source).producer);
    source = graph.node(chain.front()).inputs[0];
  }
  // From the longest chain to none: the higher the slice, the better.
  for (size_t first = 0; first <= chain.size(); ++first) {
    const ValueId from = first < chain.size() ? graph.node(chain[first]).inputs[0] : node.inputs[0];
    ShuffleMap map(graph.value(from).shape);
    bool ok = true;
    for (size_t i = first; i < chain.size() && ok; ++i) ok = map.apply(graph, chain[i]);
    if (!ok) continue;
    const auto rank = static_cast<int64_t>(map.result().size());
    const auto part = map.select(op->axis < 0 ? op->axis + rank : op->axis, *index, index_rank == 0);
    if (!part) continue;
    if (!context.may_change()) return false;
    context.report_removal(graph, id);
    GraphEditor editor(graph);
    const Slice slice{.starts = Shape{part->start},
                      .ends = Shape{part->start + part->length},
                      .axes = {part->axis},
                      .steps = {1}};
    const NodeId old_producer = graph.value(node.inputs[0]).producer;
    const ValueId sliced = insert_like(graph, id, "/slice", slice, {from});
    const ValueId moved = map.emit(editor, sliced, node.name, node.origins, id);
    editor.replace_uses(node.outputs[0], moved);
    remove_if_unread(graph, id);
    editor.rename_node(graph.value(moved).producer, node.name);
    remove_if_unread(graph, old_producer);
    return true;
  }
  return false;
}

}  // namespace

bool simplify_gathers(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!graph.node(id).removed) changed |= to_reshape(graph, context, id) || simplify(graph, context, id);
  }
  return changed;
}

}  // namespace lathe
