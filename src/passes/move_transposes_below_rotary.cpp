// SPDX-License-Identifier: Apache-2.0
//
//   Rotary(cos, sin, Transpose(x))  ->  Transpose(Rotary(cos', sin', x))     the last dim stays the last
//
// Exporters split heads before they turn them; behind the rotary embedding the Transpose meets those that
// attention puts around itself. The angles are transposed the other way, which moves nothing where they have
// one dim that is not 1.
//
// Must not fire when the transposed value is read elsewhere or the last dim moves.
#include "ops/build.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

Ints inverse(const Ints& perm) {
  Ints result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return result;
}

// With as many dims as x, in the order of the dims before the Transpose.
ValueId angles_before(Graph& graph, NodeId rotary, ValueId angles, const Ints& perm) {
  Shape shape = graph.value(angles).shape;
  if (shape.size() < perm.size()) {
    shape.insert(shape.begin(), perm.size() - shape.size(), Dim(1));
    angles = insert_layout(graph, rotary, "_dims", ReshapeOp{.shape = shape}, {angles});
  }
  return insert_layout(graph, rotary, "_angles", Transpose{inverse(perm)}, {angles});
}

bool move(Graph& graph, PassContext& context, NodeId id) {
  const auto* op = plain_op<Rotary>(graph, id);
  if (!op || graph.node(id).outputs.size() != 1) return false;
  const Rotary rotary = *op;
  const Node node = graph.node(id);
  const ValueId x = node.inputs[Rotary::kOperands];
  const auto* transpose = producer_op<Transpose>(graph, x);
  if (!transpose || !sole_user(graph, x)) return false;
  const Ints perm = transpose->perm;
  if (perm.back() != static_cast<int64_t>(perm.size()) - 1 || !context.may_change()) return false;
  const NodeId above = graph.value(x).producer;
  context.report_fusion(graph, above, id);
  const Node moved = graph.node(above);
  const std::vector<ValueId> operands = {angles_before(graph, id, node.inputs[0], perm),
                                         angles_before(graph, id, node.inputs[1], perm), moved.inputs[0]};
  GraphEditor editor(graph);
  const ValueId turned = append_node(editor, node.name, rotary, operands, node.origins, {}, 1, id)[0];
  const ValueId result =
      append_node(editor, moved.name, Transpose{perm}, {turned}, moved.origins, {}, 1, id)[0];
  const std::string name = graph.value(node.outputs[0]).name;
  editor.replace_uses(node.outputs[0], result);
  remove_if_unread(graph, id);
  if (!graph.is_output(result)) editor.rename_value(result, name);
  return true;
}

}  // namespace

bool move_transposes_below_rotary(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= move(graph, context, id);
  return changed;
}

}  // namespace lathe
