// SPDX-License-Identifier: Apache-2.0
//
// Heads of k and v that exporters repeat for each group of heads of q (grouped-query attention) are read by
// the group instead:
//   Attention(q, Reshape(Expand(Reshape(k))), Reshape(Expand(Reshape(v))))  ->  Attention(q, k, v)
// with k of (B, H, S, D) as (B, H, 1, S, D), expanded to (B, H, R, S, D) and read as (B, H * R, S, D);
// likewise in BSHD.
//
// Must not fire when k and v are repeated by different numbers, when whole sets of heads are repeated (the
// new dim in front of H, so that neighbouring heads of q belong to different heads of k), or when only one of
// the two is repeated.
#include "ops/build.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/shuffle_map.h"

namespace lathe {
namespace {

struct Repeated {
  ValueId source = kNoValue;  // (B, H, 1, S, D) or (B, S, H, 1, D)
  Shape shape;                // without the dim of 1
  std::vector<NodeId> nodes;  // Expand, Reshape
  int64_t times = 1;
};

std::optional<Repeated> repeated(const Graph& graph, ValueId value, size_t head_axis) {
  if (!producer_op<ReshapeOp>(graph, value)) return std::nullopt;
  const NodeId reshape = graph.value(value).producer;
  const ValueId wide = graph.node(reshape).inputs[0];
  if (!producer_op<Expand>(graph, wide)) return std::nullopt;
  const NodeId expand = graph.value(wide).producer;
  const ValueId narrow = graph.node(expand).inputs[0];
  const Shape &from = graph.value(narrow).shape, &to = graph.value(wide).shape;
  const size_t axis = head_axis + 1;
  if (from.size() != 5 || to.size() != 5 || !from[axis].is_constant(1) || !to[axis].is_constant())
    return std::nullopt;
  for (size_t d = 0; d < 5; ++d)
    if (d != axis && from[d] != to[d]) return std::nullopt;
  Shape joined = to;
  joined[head_axis] = to[head_axis] * to[axis];
  joined.erase(joined.begin() + static_cast<int64_t>(axis));
  if (graph.value(value).shape != joined) return std::nullopt;
  Shape shape = from;
  shape.erase(shape.begin() + static_cast<int64_t>(axis));
  return Repeated{narrow, shape, {expand, reshape}, to[axis].value()};
}

bool fuse_repeated_heads_at(Graph& graph, PassContext& context, NodeId id) {
  const auto* op = plain_op<Attention>(graph, id);
  if (!op) return false;
  const size_t head_axis = op->layout == AttentionLayout::BHSD ? 1 : 2;
  const Node node = graph.node(id);
  if (graph.value(node.inputs[0]).shape[head_axis] != graph.value(node.inputs[1]).shape[head_axis])
    return false;
  const auto k = repeated(graph, node.inputs[1], head_axis), v = repeated(graph, node.inputs[2], head_axis);
  if (!k || !v || k->times != v->times || k->shape[head_axis] != v->shape[head_axis] || !context.may_change())
    return false;
  context.report_fusion(graph, k->nodes.front(), id);
  const auto shared = [&](const Repeated& r, std::string_view suffix) {
    return insert_layout(graph, id, suffix, ReshapeOp{.shape = r.shape}, {r.source});
  };
  const std::vector<ValueId> heads = {shared(*k, "_k_heads"), shared(*v, "_v_heads")};
  GraphEditor editor(graph);
  size_t input = 1;
  for (const Repeated* r : {&*k, &*v}) {
    for (const NodeId gone : r->nodes) editor.absorb(id, gone);
    editor.replace_input(id, input, heads[input - 1]);
    ++input;
    remove_if_unread(graph, r->nodes.back());
  }
  editor.rename_node(id, node.name);
  return true;
}

}  // namespace

bool fuse_repeated_heads(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= fuse_repeated_heads_at(graph, context, id);
  return changed;
}

}  // namespace lathe
