// SPDX-License-Identifier: Apache-2.0
//
//   LayerNorm, Attention + Clip, RoundTo  ->  the same with epilogue {Clip[..](0) RoundTo[..](1)}
//                        + RoundToE4M3    ->  the same with epilogue {RoundToE4M3[..](0)}
//
// so that what a quantised product reads is stored as bytes by the layer that computes it. Where others read
// what a LayerNorm gives as it is (the sum around a block of a transformer that normalises behind it), it
// gives both. Convolutions and products take their roundings as they take any tail.
//
// Must not fire when others read what an Attention gives as it is, when more than one rounding does, when the
// rounding reads more than that, or when the layer has other results. A LayerNorm gives both when neither is
// a graph output.
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

// The only rounding among those that read `value`; nullopt where there are none or more.
std::optional<NodeId> sole_rounding(const Graph& graph, ValueId value) {
  std::optional<NodeId> found;
  for (const NodeId user : graph.users(value)) {
    if (!only_rounds(program_of(graph.node(user)))) continue;
    if (found) return std::nullopt;
    found = user;
  }
  return found;
}

// Gives what `norm` gives and what `rounding` makes of it.
bool round_beside(Graph& graph, PassContext& context, NodeId norm, NodeId rounding) {
  const Node node = graph.node(norm);
  const ValueId plain = node.outputs[0], rounded = result_of(graph, rounding);
  if (graph.is_output(plain) || graph.is_output(rounded) || !context.may_change()) return false;
  const auto like = [&](ValueId v) {
    const Value& value = graph.value(v);
    return GraphEditor::NewValue{value.name, value.dtype, value.shape};
  };
  context.report_fusion(graph, norm, rounding);
  GraphEditor editor(graph);
  const NodeId both = editor.add_node(node.name, node.op, node.inputs, {like(rounded), {}, {}, like(plain)},
                                      node.origins, norm);
  editor.set_epilogue(both, program_of(graph.node(rounding)), {});
  const std::string names[] = {graph.value(rounded).name, graph.value(plain).name};
  const std::vector<ValueId> results = graph.node(both).outputs;
  editor.replace_uses(rounded, results[0]);
  editor.replace_uses(plain, results[3]);
  const std::string name = node.name + " + " + graph.node(rounding).name;
  editor.absorb(both, rounding);
  editor.remove_node(rounding);
  editor.remove_node(norm);
  editor.rename_node(both, name);
  editor.rename_value(results[0], names[0]);
  editor.rename_value(results[3], names[1]);
  return true;
}

}  // namespace

bool fuse_rounding(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed || !takes_rounding(graph.node(id))) continue;
    const ValueId result = graph.node(id).outputs[0];
    const auto rounding = sole_rounding(graph, result);
    if (!rounding) continue;
    if (sole_user(graph, result))
      changed |= append_to_epilogue(graph, context, id, *rounding);
    else if (std::holds_alternative<LayerNorm>(graph.node(id).op))
      changed |= round_beside(graph, context, id, *rounding);
  }
  return changed;
}

}  // namespace lathe
