// SPDX-License-Identifier: Apache-2.0
//
// Masks of attention that are known:
//   Attention(q, k, v, zeros)            ->  Attention(q, k, v)
//   Attention(q, k, v, lower triangle)   ->  Attention{causal}(q, k, v)      row i sees keys 0 to i, and
//                                                                            nothing else is added
//
// Half of the keys are then never read. Boolean masks count likewise. Must not fire when the mask differs
// between heads or items, or when a forbidden key keeps a score that real ones can reach.
#include "ir/edit.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace lathe {
namespace {

enum class Kind : uint8_t { Other, Everything, Triangle };

// Of a mask of `rows` x `keys`, or one row for all.
Kind kind_of(const Tensor& mask, int64_t keys) {
  const bool boolean = mask.dtype() == DType::Bool;
  const std::vector<double> values = mask.to_doubles();
  bool everything = true, triangle = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool keeps = boolean ? values[i] != 0 : values[i] == 0,
               forbids = boolean ? !keeps : values[i] <= kOutOfReach;
    const bool past = static_cast<int64_t>(i) % keys <= static_cast<int64_t>(i) / keys;
    everything = everything && keeps;
    triangle = triangle && (past ? keeps : forbids);
  }
  return everything ? Kind::Everything : triangle ? Kind::Triangle : Kind::Other;
}

// The last two extents of a mask, when there are no others than 1 in front.
std::optional<std::pair<int64_t, int64_t>> matrix_of(const Extents& extents) {
  for (size_t d = 0; d + 2 < extents.size(); ++d)
    if (extents[d] != 1) return std::nullopt;
  const size_t rank = extents.size();
  return std::pair{rank > 1 ? extents[rank - 2] : 1, rank > 0 ? extents[rank - 1] : 1};
}

bool fuse_constant_mask_at(Graph& graph, PassContext& context, NodeId id) {
  const auto* op = plain_op<Attention>(graph, id);
  const Node& node = graph.node(id);
  if (!op || node.inputs.size() < 4 || node.inputs[3] == kNoValue) return false;
  const Value& mask = graph.value(node.inputs[3]);
  if (!mask.is_constant() || !mask.constant.has_bytes() || mask.constant.size() == 0) return false;
  const auto matrix = matrix_of(mask.constant.extents());
  if (!matrix) return false;
  const Kind kind = kind_of(mask.constant, matrix->second);
  const size_t length = op->layout == AttentionLayout::BHSD ? 2 : 1;
  const Dim &queries = graph.value(node.inputs[0]).shape[length],
            &keys = graph.value(node.inputs[1]).shape[length];
  // One row for all rows or one key for all keys is no triangle.
  const bool whole = queries == Dim(matrix->first) && keys == Dim(matrix->second);
  if (kind == Kind::Other || (kind == Kind::Triangle && !whole) || !context.may_change()) return false;
  Attention known = *op;
  known.causal = known.causal || kind == Kind::Triangle;
  GraphEditor editor(graph);
  editor.set_inputs(id, {node.inputs.begin(), node.inputs.begin() + 3});
  editor.set_op(id, known);
  return true;
}

}  // namespace

bool fuse_constant_mask(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= fuse_constant_mask_at(graph, context, id);
  return changed;
}

}  // namespace lathe
