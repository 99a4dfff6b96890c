// SPDX-License-Identifier: Apache-2.0
//
// Concats and Splits that undo each other, and nested ones:
//   Split(Concat(a, b)) with the same parts -> a, b
//   Concat(all parts of Split(x), in order) -> x
//   Concat(Concat(a, b), c) along one axis  -> Concat(a, b, c)
//   Concat(a, nothing, b)                   -> Concat(a, b)
//   the one part with elements of Split(x), where nobody reads the others -> x
//
// Must not fire when the inner Concat is read by others (its copy would stay and the outer would grow), nor
// for parts in another order or along another axis.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool split_of_concat(Graph& graph, PassContext& context, NodeId id) {
  const Node node = graph.node(id);
  const auto* split = plain_op<Split>(graph, id);
  const auto* concat = split ? producer_op<Concat>(graph, node.inputs[0]) : nullptr;
  if (!concat) return false;
  const std::vector<ValueId> parts = graph.node(graph.value(node.inputs[0]).producer).inputs;
  const int64_t axis = positive_axis(graph, node.inputs[0], split->axis);
  if (axis != positive_axis(graph, node.inputs[0], concat->axis) || parts.size() != node.outputs.size())
    return false;
  GraphEditor editor(graph);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    if (graph.value(parts[i]).shape != graph.value(node.outputs[i]).shape) return false;
    if (!editor.can_replace_uses(node.outputs[i], parts[i])) return false;
    // Two outputs of the graph cannot share one value.
    if (graph.is_output(node.outputs[i]) && std::count(parts.begin(), parts.end(), parts[i]) > 1)
      return false;
  }
  for (const Dim& size : split->sizes) {
    if (size.is_constant(0)) return false;
  }
  if (!context.may_change()) return false;
  context.report_removal(graph, id);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (node.outputs[i] != kNoValue) editor.replace_uses(node.outputs[i], parts[i]);
  }
  remove_if_unread(graph, id);
  return true;
}

bool concat_of_split(Graph& graph, PassContext& context, NodeId id) {
  const Node node = graph.node(id);
  const auto* concat = plain_op<Concat>(graph, id);
  const auto* split = concat ? producer_op<Split>(graph, node.inputs[0]) : nullptr;
  if (!split) return false;
  const Node& source = graph.node(graph.value(node.inputs[0]).producer);
  if (source.outputs != node.inputs) return false;
  if (positive_axis(graph, source.inputs[0], split->axis) !=
      positive_axis(graph, source.inputs[0], concat->axis))
    return false;
  return bypass(graph, context, id, source.inputs[0]);
}

bool nested_concat(Graph& graph, PassContext& context, NodeId id) {
  const auto* outer = plain_op<Concat>(graph, id);
  if (!outer) return false;
  const std::vector<ValueId> inputs = graph.node(id).inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* inner = producer_op<Concat>(graph, inputs[i]);
    if (!inner || sole_user(graph, inputs[i]) != id ||
        std::count(inputs.begin(), inputs.end(), inputs[i]) > 1)
      continue;
    if (positive_axis(graph, inputs[i], inner->axis) != positive_axis(graph, inputs[i], outer->axis))
      continue;
    if (!context.may_change()) return false;
    const NodeId producer = graph.value(inputs[i]).producer;
    const std::vector<ValueId> parts = graph.node(producer).inputs;
    std::vector<ValueId> flat(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(i));
    flat.insert(flat.end(), parts.begin(), parts.end());
    flat.insert(flat.end(), inputs.begin() + static_cast<std::ptrdiff_t>(i) + 1, inputs.end());
    context.report_fusion(graph, producer, id);
    GraphEditor editor(graph);
    editor.absorb(id, producer);
    editor.set_inputs(id, std::move(flat));
    remove_if_unread(graph, producer);
    return true;
  }
  return false;
}

bool concat_of_nothing(Graph& graph, PassContext& context, NodeId id) {
  const auto* concat = plain_op<Concat>(graph, id);
  if (!concat) return false;
  const std::vector<ValueId> inputs = graph.node(id).inputs;
  std::vector<ValueId> kept;
  for (const ValueId input : inputs) {
    const auto axis = static_cast<size_t>(positive_axis(graph, input, concat->axis));
    if (!graph.value(input).shape[axis].is_constant(0)) kept.push_back(input);
  }
  if (kept.empty() || kept.size() == inputs.size()) return false;
  if (kept.size() == 1)
    return graph.value(kept[0]).shape == graph.value(result_of(graph, id)).shape &&
           bypass(graph, context, id, kept[0]);
  if (!context.may_change()) return false;
  GraphEditor(graph).set_inputs(id, std::move(kept));
  return true;
}

bool split_of_one(Graph& graph, PassContext& context, NodeId id) {
  const Node node = graph.node(id);
  const auto* split = plain_op<Split>(graph, id);
  if (!split) return false;
  ValueId part = kNoValue;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!split->sizes[i].is_constant(0)) {
      if (part != kNoValue || node.outputs[i] == kNoValue) return false;
      part = node.outputs[i];
    } else if (node.outputs[i] != kNoValue &&
               (graph.is_output(node.outputs[i]) || !graph.users(node.outputs[i]).empty())) {
      return false;
    }
  }
  GraphEditor editor(graph);
  if (part == kNoValue || node.outputs.size() == 1 || !editor.can_replace_uses(part, node.inputs[0]) ||
      !context.may_change())
    return false;
  context.report_removal(graph, id);
  editor.replace_uses(part, node.inputs[0]);
  remove_if_unread(graph, id);
  return true;
}

}  // namespace

bool simplify_concats(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed) continue;
    changed |= split_of_concat(graph, context, id) || concat_of_split(graph, context, id) ||
               nested_concat(graph, context, id) || concat_of_nothing(graph, context, id) ||
               split_of_one(graph, context, id);
  }
  return changed;
}

}  // namespace lathe
