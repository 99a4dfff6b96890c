// SPDX-License-Identifier: Apache-2.0
//
//   e = exp(x - max(x)); e / sum(e)  ->  Softmax(x)          also without the subtraction, which changes
//                                                            nothing but range
//
// Maximum and sum run over the same single axis and keep it. Must not fire when e is read by anything else.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// The one axis of a reduction that keeps it, not negative; -1 otherwise.
int64_t reduced_axis(const Graph& graph, NodeId id, ReduceKind kind) {
  const auto* op = plain_op<Reduce>(graph, id);
  if (!op || op->kind != kind || !op->keepdims || !op->axes || op->axes->size() != 1) return -1;
  return positive_axis(graph, graph.node(id).inputs[0], (*op->axes)[0]);
}

bool fuse_softmax_at(Graph& graph, PassContext& context, NodeId div) {
  const Node& node = graph.node(div);
  const ValueId e = node.inputs[0];
  const NodeId exp = pointwise_producer(graph, e, PointwiseCode::Exp),
               sum = graph.value(node.inputs[1]).producer;
  if (exp == kNoNode || sum == kNoNode || graph.is_output(e) || graph.users(e).size() != 2) return false;
  const int64_t axis = reduced_axis(graph, sum, ReduceKind::Sum);
  if (axis < 0 || graph.node(sum).inputs[0] != e || sole_user(graph, node.inputs[1]) != div) return false;
  if (!is_float(graph.value(e).dtype)) return false;
  std::vector<NodeId> nodes = {exp, sum, div};
  ValueId x = graph.node(exp).inputs[0];
  const NodeId sub = pointwise_producer(graph, x, PointwiseCode::Sub);
  if (sub != kNoNode && sole_user(graph, x) == exp) {
    const ValueId shifted = graph.node(sub).inputs[0], largest = graph.node(sub).inputs[1];
    const NodeId max = graph.value(largest).producer;
    if (max != kNoNode && reduced_axis(graph, max, ReduceKind::Max) == axis &&
        graph.node(max).inputs[0] == shifted) {
      if (sole_user(graph, largest) != sub) return false;
      nodes.insert(nodes.begin(), {max, sub});
      x = shifted;
    }
  }
  if (!context.may_change()) return false;
  replace_nodes(graph, context, nodes, Softmax{.axis = axis}, {x});
  return true;
}

}  // namespace

bool fuse_softmax(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed || !is_pointwise(graph, id, PointwiseCode::Div)) continue;
    changed |= fuse_softmax_at(graph, context, id);
  }
  return changed;
}

}  // namespace lathe
