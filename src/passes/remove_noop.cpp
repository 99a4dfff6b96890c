// SPDX-License-Identifier: Apache-2.0
//
// Removes nodes that give their input back:
//   Identity, Cast to the same type, Reshape/Expand/Tile/Pad/Slice to the same shape, Transpose by the
//   identity, Concat and Split of one part, Reduce over no axis, x * 1, x / 1, x + 0, x - 0, Linear[1, 0]
//
// Must not fire when the type or shape changes (x + 0 may broadcast), nor when a graph output would lose its
// name: an Identity from an input to an output stays.
#include <algorithm>
#include <numeric>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool is_zero(const Dim& dim) {
  return dim.is_constant(0);
}

// Of operators that keep order: does equal shape mean equal data?
struct IsNoop {
  const Graph& graph;
  const Node& node;

  bool operator()(const Pointwise& op) const {
    switch (op.code) {
      case PointwiseCode::Identity:
        return true;
      case PointwiseCode::Linear:
        return op.alpha == 1 && op.beta == 0;
      case PointwiseCode::Add:
        return neutral(0, true);
      case PointwiseCode::Mul:
        return neutral(1, true);
      case PointwiseCode::Sub:
        return neutral(0, false);
      case PointwiseCode::Div:
        return neutral(1, false);
      default:
        return false;
    }
  }
  bool operator()(const Cast&) const { return true; }  // the types are equal
  bool operator()(const ReshapeOp&) const { return true; }
  bool operator()(const Expand&) const { return true; }
  bool operator()(const Tile&) const { return true; }
  bool operator()(const Concat&) const { return node.inputs.size() == 1; }
  bool operator()(const Split&) const { return node.outputs.size() == 1; }
  bool operator()(const Transpose& op) const {
    Ints identity(op.perm.size());
    std::iota(identity.begin(), identity.end(), 0);
    return op.perm == identity;
  }
  bool operator()(const Slice& op) const {
    for (int64_t step : op.steps) {
      if (step != 1) return false;
    }
    return op.starts.has_value();
  }
  bool operator()(const Pad& op) const {
    return op.pads && std::all_of(op.pads->begin(), op.pads->end(), is_zero);
  }
  bool operator()(const Reduce& op) const {
    const bool sums = op.kind == ReduceKind::Sum || op.kind == ReduceKind::Mean ||
                      op.kind == ReduceKind::Max || op.kind == ReduceKind::Min || op.kind == ReduceKind::Prod;
    return sums && op.axes && op.axes->empty();
  }
  template <class Other>
  bool operator()(const Other&) const {
    return false;
  }

  // Exactly the neutral element; nearly would change results.
  bool neutral(double element, bool commutes) const {
    const auto operand = operand_with_scalar(graph, node_id());
    return operand && operand->scalar == element && (commutes || !operand->scalar_first);
  }
  NodeId node_id() const { return graph.value(node.outputs[0]).producer; }
  ValueId kept() const {
    const auto operand = operand_with_scalar(graph, node_id());
    return operand ? operand->value : node.inputs[0];
  }
};

}  // namespace

bool remove_noop(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    const Node& node = graph.node(id);
    if (node.removed || !node.epilogue.empty() || node.inputs.empty() || node.outputs[0] == kNoValue)
      continue;
    const IsNoop is_noop{graph, node};
    const ValueId kept = std::holds_alternative<Pointwise>(node.op) ? is_noop.kept() : node.inputs[0];
    if (kept == kNoValue) continue;
    const Value &from = graph.value(kept), &to = graph.value(node.outputs[0]);
    if (from.dtype != to.dtype || from.shape != to.shape || !std::visit(is_noop, node.op)) continue;
    changed |= bypass(graph, context, id, kept);
  }
  return changed;
}

}  // namespace lathe
