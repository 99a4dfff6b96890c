// SPDX-License-Identifier: Apache-2.0
//
//   min(max(x, a), b)  ->  Clip[a, b](x)  when a <= b        max(min(x, b), a)  ->  the same
//   Clip[0, largest](x)  ->  Relu(x)
//
// Must not fire for a > b, where the order of min and max matters, nor when the inner result is read
// elsewhere.
#include <limits>

#include "ir/edit.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool fuse_min_max(Graph& graph, PassContext& context, NodeId outer) {
  const auto* op = plain_op<Pointwise>(graph, outer);
  if (!op || (op->code != PointwiseCode::Min && op->code != PointwiseCode::Max)) return false;
  const bool outer_is_min = op->code == PointwiseCode::Min;
  const auto outer_bound = operand_with_scalar(graph, outer);
  if (!outer_bound) return false;
  const NodeId inner =
      pointwise_producer(graph, outer_bound->value, outer_is_min ? PointwiseCode::Max : PointwiseCode::Min);
  if (inner == kNoNode || sole_user(graph, outer_bound->value) != outer) return false;
  const auto inner_bound = operand_with_scalar(graph, inner);
  if (!inner_bound) return false;
  const double low = outer_is_min ? inner_bound->scalar : outer_bound->scalar;
  const double high = outer_is_min ? outer_bound->scalar : inner_bound->scalar;
  const ValueId x = inner_bound->value, result = result_of(graph, outer);
  if (!(low <= high) || !same_float_type(graph, {x, result}) ||
      graph.value(x).shape != graph.value(result).shape)
    return false;
  if (!context.may_change()) return false;
  replace_nodes(graph, context, {inner, outer},
                Pointwise{PointwiseCode::Clip, static_cast<float>(low), static_cast<float>(high)}, {x});
  return true;
}

bool clip_to_relu(Graph& graph, PassContext& context, NodeId id) {
  const auto* op = plain_op<Pointwise>(graph, id);
  if (!op || op->code != PointwiseCode::Clip || op->alpha != 0) return false;
  if (op->beta < std::numeric_limits<float>::max() || !is_float(graph.value(result_of(graph, id)).dtype))
    return false;
  if (!context.may_change()) return false;
  GraphEditor(graph).set_op(id, Pointwise{PointwiseCode::Relu});
  return true;
}

}  // namespace

bool fuse_clip(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed) continue;
    changed |= fuse_min_max(graph, context, id) || clip_to_relu(graph, context, id);
  }
  return changed;
}

}  // namespace lathe
