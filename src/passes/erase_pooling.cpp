// SPDX-License-Identifier: Apache-2.0
//
// A pooling window of one element gives its input back: AveragePool and MaxPool with kernel 1x1, stride 1 and
// no padding, and a mean, sum, maximum or minimum over axes of extent 1 (global pooling of a 1x1 image). What
// an adaptive pool becomes when the image already has the wanted size.
//
// Must not fire with padding, for Max with indices, or when the shape changes and is not just rid of ones:
// then a reduction without kept dims becomes a Reshape.
#include <algorithm>

#include "ir/edit.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool all_equal(const Ints& values, int64_t expected) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == expected; });
}

bool is_unit_pool(const Graph& graph, const Node& node) {
  const auto* pool = std::get_if<Pool>(&node.op);
  if (!pool || node.outputs.size() != 1 || !all_equal(pool->kernel, 1)) return false;
  // |x|^p to the power 1/p is |x|, not x.
  if (pool->kind == PoolKind::Lp) return false;
  const bool pads = !all_equal(pool->pads_begin, 0) || !all_equal(pool->pads_end, 0);
  return all_equal(pool->strides, 1) && !pads &&
         graph.value(node.inputs[0]).shape == graph.value(node.outputs[0]).shape;
}

bool is_unit_reduce(const Graph& graph, const Node& node) {
  const auto* reduce = std::get_if<Reduce>(&node.op);
  if (!reduce || !reduce->axes || reduce->axes->empty()) return false;
  switch (reduce->kind) {
    case ReduceKind::Sum:
    case ReduceKind::Mean:
    case ReduceKind::Max:
    case ReduceKind::Min:
    case ReduceKind::Prod:
      break;
    default:
      return false;
  }
  const Shape& shape = graph.value(node.inputs[0]).shape;
  return std::all_of(reduce->axes->begin(), reduce->axes->end(), [&](int64_t axis) {
    return shape[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis)]
        .is_constant(1);
  });
}

}  // namespace

bool erase_pooling(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    const Node& node = graph.node(id);
    if (node.removed || !node.epilogue.empty()) continue;
    if (!is_unit_pool(graph, node) && !is_unit_reduce(graph, node)) continue;
    const ValueId input = node.inputs[0];
    const Shape shape = graph.value(node.outputs[0]).shape;
    if (graph.value(input).shape == shape) {
      changed |= bypass(graph, context, id, input);
    } else if (context.may_change()) {
      context.report_removal(graph, id);
      GraphEditor editor(graph);
      editor.set_op(id, ReshapeOp{.shape = shape});
      editor.set_inputs(id, {input});
      changed = true;
    }
  }
  return changed;
}

}  // namespace lathe
