// SPDX-License-Identifier: Apache-2.0
//
//   MatMul [+ bias, activation] -> MatMul [+ epilogue]   ->   FeedForward
// What is between the products is wider than what goes in and comes out (four times in a transformer), and
// one layer can keep it in the caches, in the form that the second product reads.
//
// An optional rewrite: the tuner times the layer against its parts. Must not fire when the result of the
// first product is read by anything else or is an output, when weights are computed or batches of matrices,
// when what is between the products reads data (a gate, say), or when the first product does not widen the
// rows.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// A product of float rows with one constant matrix.
const MatMul* weighted_product(const Graph& graph, NodeId id) {
  if (id == kNoNode) return nullptr;
  const Node& node = graph.node(id);
  const auto* product = std::get_if<MatMul>(&node.op);
  if (!product || product->transpose_a || node.op_input_count() != 2) return nullptr;
  const Value &rows = graph.value(node.inputs[0]), &weights = graph.value(node.inputs[1]);
  const bool fits = is_float(rows.dtype) && rows.shape.size() >= 2 && !rows.is_constant() &&
                    weights.is_constant() && weights.shape.size() == 2;
  return fits ? product : nullptr;
}

bool has_constant_operands(const Graph& graph, const Node& node) {
  return std::all_of(node.inputs.begin() + static_cast<std::ptrdiff_t>(node.op_input_count()),
                     node.inputs.end(), [&](ValueId id) { return graph.value(id).is_constant(); });
}

bool widens(const Graph& graph, NodeId first) {
  const Dim &in = graph.value(graph.node(first).inputs[0]).shape.back(),
            &out = graph.value(result_of(graph, first)).shape.back();
  return in.is_constant() && out.is_constant() && out.value() > in.value();
}

// The product that alone reads the result of `first`, as its rows.
NodeId second_product(const Graph& graph, NodeId first) {
  const ValueId hidden = result_of(graph, first);
  const auto user = sole_user(graph, hidden);
  if (!user || !weighted_product(graph, *user)) return kNoNode;
  const std::vector<ValueId>& inputs = graph.node(*user).inputs;
  return inputs[0] == hidden && std::count(inputs.begin(), inputs.end(), hidden) == 1 ? *user : kNoNode;
}

void fuse_feed_forward_at(Graph& graph, PassContext& context, NodeId first, NodeId second) {
  const Node before = graph.node(first), last = graph.node(second);
  const FeedForward op{.transpose_first = std::get<MatMul>(before.op).transpose_b,
                       .transpose_second = std::get<MatMul>(last.op).transpose_b,
                       .hidden = before.epilogue};
  std::vector<ValueId> inputs = {before.inputs[0], before.inputs[1], last.inputs[1]};
  inputs.insert(inputs.end(), before.inputs.begin() + 2, before.inputs.end());
  const std::vector<DType> types = common_types(graph, {first, second});
  const NodeId layer = replace_nodes(graph, context, {first, second}, op, std::move(inputs));
  GraphEditor editor(graph);
  editor.set_epilogue(layer, last.epilogue, {last.inputs.begin() + 2, last.inputs.end()});
  editor.set_allowed_types(layer, types);
}

}  // namespace

bool fuse_feed_forward(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed || !weighted_product(graph, id) || !widens(graph, id) ||
        !has_constant_operands(graph, graph.node(id)))
      continue;
    const NodeId second = second_product(graph, id);
    if (second == kNoNode || !context.may_change()) continue;
    fuse_feed_forward_at(graph, context, id, second);
    changed = true;
  }
  return changed;
}

}  // namespace lathe
