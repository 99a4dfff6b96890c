// SPDX-License-Identifier: Apache-2.0
//
// Attention in the order of dims in which its operands come:
//   Attention{BHSD}(q, k, v)  ->  Transpose'(Attention{BSHD}(Transpose(q), Transpose(k), Transpose(v)))
// where most of the operands come from a Transpose that splits heads, (B, S, H, D) to (B, H, S, D). The
// inverse Transposes cancel against the exporter's (simplify_shuffles), and the one behind usually as well,
// so that no data moves.
//
// Must not fire when one operand at most loses its Transpose.
#include "ops/build.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

const Ints kSwapHeads = {0, 2, 1, 3};

bool splits_heads(const Graph& graph, ValueId value) {
  const auto* op = producer_op<Transpose>(graph, value);
  return op && op->perm == kSwapHeads;
}

// A Transpose that implements no ONNX node.
ValueId swap_heads(Graph& graph, NodeId before, std::string_view suffix, ValueId value) {
  GraphEditor editor(graph);
  // Of a name like "qk + softmax + pv" the last part is enough.
  const std::string& fused = graph.node(before).name;
  const size_t last = fused.rfind(" + ");
  const std::string name = fused.substr(last == std::string::npos ? 0 : last + 3) + std::string(suffix);
  return append_node(editor, name, Transpose{kSwapHeads}, {value}, {}, {}, 1, before)[0];
}

bool choose(Graph& graph, PassContext& context, NodeId id) {
  const auto* op = plain_op<Attention>(graph, id);
  if (!op || op->layout != AttentionLayout::BHSD) return false;
  const Node node = graph.node(id);
  int splits = 0;
  for (size_t i = 0; i < 3; ++i) splits += splits_heads(graph, node.inputs[i]);
  if (splits < 2 || !context.may_change()) return false;
  Attention swapped = *op;
  swapped.layout = AttentionLayout::BSHD;
  std::vector<ValueId> inputs = node.inputs;
  for (size_t i = 0; i < 3; ++i) inputs[i] = swap_heads(graph, id, "_bshd", inputs[i]);
  GraphEditor editor(graph);
  const ValueId result =
      append_node(editor, node.name, swapped, std::move(inputs), node.origins, {}, 1, id)[0];
  editor.replace_uses(node.outputs[0], swap_heads(graph, id, "_layout", result));
  remove_if_unread(graph, id);
  editor.rename_node(graph.value(result).producer, node.name);
  return true;
}

}  // namespace

bool choose_attention_layout(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= choose(graph, context, id);
  return changed;
}

}  // namespace lathe
