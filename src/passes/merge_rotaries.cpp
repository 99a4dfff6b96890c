// SPDX-License-Identifier: Apache-2.0
//
//   Rotary(cos, sin, q); Rotary(cos, sin, k)  ->  Rotary(cos, sin, q, k)
//
// One layer for queries and keys: a rotary embedding is so little work that starting a layer counts. Must not
// fire when one of the two is computed from the other, when they turn other pairs, or when a result is a
// graph output (its place is the caller's).
#include <algorithm>
#include <set>

#include "ops/build.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool may_merge_rotary(const Graph& graph, NodeId id) {
  return !graph.node(id).removed && plain_op<Rotary>(graph, id) && graph.node(id).outputs.size() == 1 &&
         !graph.is_output(graph.node(id).outputs[0]);
}

bool alike(const Graph& graph, NodeId a, NodeId b) {
  const Node &first = graph.node(a), &second = graph.node(b);
  const Value &x = graph.value(first.outputs[0]), &y = graph.value(second.outputs[0]);
  return first.op == second.op && first.inputs[0] == second.inputs[0] &&
         first.inputs[1] == second.inputs[1] && first.allowed_types == second.allowed_types &&
         x.dtype == y.dtype && x.shape.size() == y.shape.size();
}

// Is anything that `to` reads computed from what `from` gives? Both in execution order.
bool depends(const Graph& graph, NodeId from, NodeId to) {
  std::set<ValueId> tainted = {graph.node(from).outputs[0]};
  const auto reads = [&](NodeId id) {
    const auto& inputs = graph.node(id).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) { return tainted.contains(v); });
  };
  for (const NodeId id : graph.order()) {
    if (id == to) return reads(to);
    if (reads(id)) tainted.insert(graph.node(id).outputs.begin(), graph.node(id).outputs.end());
  }
  return true;
}

void merge(Graph& graph, PassContext& context, NodeId first, NodeId second) {
  context.report_fusion(graph, first, second);
  const Node a = graph.node(first), b = graph.node(second);
  GraphEditor editor(graph);
  std::vector<ValueId> inputs = a.inputs;
  inputs.push_back(b.inputs[Rotary::kOperands]);
  // In the place of the second one, where both operands are there.
  const auto results = append_node(editor, a.name, a.op, std::move(inputs), a.origins, {}, 2, second);
  const NodeId merged = graph.value(results[0]).producer;
  editor.set_allowed_types(merged, a.allowed_types);
  for (const auto& [node, result] : {std::pair{first, results[0]}, std::pair{second, results[1]}}) {
    const ValueId old = graph.node(node).outputs[0];
    const std::string name = graph.value(old).name;
    editor.replace_uses(old, result);
    if (node == second) editor.absorb(merged, second);
    editor.remove_node(node);
    editor.rename_value(result, name);
  }
  editor.rename_node(merged, a.name + " || " + b.name);
  editor.sort();
}

}  // namespace

bool merge_rotaries(Graph& graph, PassContext& context) {
  const std::vector<NodeId> order = graph.order();
  bool changed = false;
  for (size_t i = 0; i < order.size(); ++i) {
    if (!may_merge_rotary(graph, order[i])) continue;
    for (size_t j = i + 1; j < order.size(); ++j) {
      if (!may_merge_rotary(graph, order[j]) || !alike(graph, order[i], order[j])) continue;
      if (!depends(graph, order[i], order[j]) && context.may_change()) {
        merge(graph, context, order[i], order[j]);
        changed = true;
      }
      break;
    }
  }
  return changed;
}

}  // namespace lathe
