// SPDX-License-Identifier: Apache-2.0
//
// Products whose left operand is constant, in the form that kernels take:
//   MatMul(A, v) of a constant matrix and a vector  ->  MatMul(v, A) {transpose_b}: A is packed
//   MatMul(A, b) {transpose_a} of a constant A      ->  MatMul(transposed A, b), which folding transposes
//
// Must not fire when the left operand is computed, when A is a stack of matrices (the first), nor when the
// right operand lies on a grid (the first: weights stand on the right).
#include <algorithm>
#include <numeric>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool simplify_matmul(Graph& graph, PassContext& context, NodeId id) {
  if (plain_op<MatMul>(graph, id) == nullptr) return false;
  const Node node = graph.node(id);
  const auto op = std::get<MatMul>(node.op);
  const Value &a = graph.value(node.inputs[0]), &b = graph.value(node.inputs[1]);
  if (!a.is_constant() || b.is_constant() || a.shape.size() < 2) return false;
  const bool is_product_with_vector = a.shape.size() == 2 && b.shape.size() == 1 && !b.quantization;
  if ((!is_product_with_vector && !op.transpose_a) || !context.may_change()) return false;
  GraphEditor editor(graph);
  if (is_product_with_vector) {
    editor.set_op(id, MatMul{.transpose_b = !op.transpose_a});
    editor.set_inputs(id, {node.inputs[1], node.inputs[0]});
    return true;
  }
  Ints perm(a.shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  const ValueId transposed = insert_like(graph, id, "/transposed", Transpose{.perm = perm}, {node.inputs[0]});
  editor.set_op(id, MatMul{.transpose_b = op.transpose_b});
  editor.set_inputs(id, {transposed, node.inputs[1]});
  return true;
}

}  // namespace

bool simplify_matmuls(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= simplify_matmul(graph, context, id);
  return changed;
}

}  // namespace lathe
