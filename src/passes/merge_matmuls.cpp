// SPDX-License-Identifier: Apache-2.0
//
// Products of one left operand with constant matrices of one shape become one product with the stack of them:
//   q = MatMul(x, Wq) [+ bq]; k = MatMul(x, Wk) [+ bk]; ...   ->
//   y = MatMul(rows of x, [Wq, Wk, ...]) [+ [bq, bk, ...]]; q, k, ... = Split(y) along the stack
// with x as (rows, K), the stack as (count, K, N) and y as (count, rows, N). The stack is the outermost dim
// of y, so each part is dense and Split and Reshape move nothing; side by side as columns of one matrix the
// parts would be strided, and every reader (attention above all) would have to copy or take strides. x is
// read while it is in cache, by one layer in place of several. A tactic of the stack may still run one call
// per matrix, so nothing is lost where that is the fastest.
//
// Weights on grids, one for each matrix or each of its columns, are a stack on a grid with a scale for each
// column of each matrix (ir/block_grid.h, with K as the block), where the backend multiplies bytes by such.
//
// Must not fire when the products differ in more than the numbers of their constants, when an operand of an
// epilogue is computed at run time, or when a result is a graph output (its place is the caller's buffer, not
// a part of y). Of weights on a grid: when x is no bytes, so that nobody multiplies them as such, or when
// there are a few rows only, for which there are kernels of one matrix.
#include <algorithm>
#include <cstring>
#include <map>

#include "ir/block_grid.h"
#include "ir/recipe.h"
#include "ops/build.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool is_stored_float(const Value& value) {
  return value.is_constant() && value.constant.has_bytes() && is_float(value.dtype);
}

// A number, or a row along the last dim.
bool is_row(const Value& value, const Dim& columns) {
  return value.constant.size() == 1 ||
         (!value.shape.empty() && value.shape.back() == columns && Dim(value.constant.size()) == columns);
}

size_t column_axis(const MatMul& product) {
  return product.transpose_b ? 0 : 1;
}

bool is_few_rows(const Shape& x) {
  Dim rows = 1;
  for (size_t d = 0; d + 1 < x.size(); ++d) rows = rows * x[d];
  return rows.is_constant() && rows.value() <= 16;
}

// Bytes times bytes, with a scale for each column at most.
bool multiplies_grids(const Value& x, const Value& weights, size_t columns) {
  if (!x.quantization || !x.quantization->is_per_tensor() || is_few_rows(x.shape)) return false;
  const Quantization& grid = *weights.quantization;
  if (has_blocks(grid, weights.shape) || x.quantization->has_floats() != grid.has_floats()) return false;
  return grid.is_per_tensor() || grid.axis == static_cast<int64_t>(columns);
}

bool may_merge_matmul(const Graph& graph, NodeId id, bool stacks_grids) {
  const Node& node = graph.node(id);
  const auto* op = std::get_if<MatMul>(&node.op);
  if (!op || op->transpose_a || graph.value(node.inputs[0]).shape.size() < 2) return false;
  const Value& weights = graph.value(node.inputs[1]);
  if (!is_stored_float(weights) || weights.shape.size() != 2 || graph.is_output(node.outputs[0]))
    return false;
  if (weights.quantization &&
      !(stacks_grids && multiplies_grids(graph.value(node.inputs[0]), weights, column_axis(*op))))
    return false;
  const Dim& columns = weights.shape[column_axis(*op)];
  return std::all_of(node.inputs.begin() + 2, node.inputs.end(), [&](ValueId input) {
    return is_stored_float(graph.value(input)) && is_row(graph.value(input), columns);
  });
}

bool same_type(const Value& a, const Value& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

bool same_but_weights(const Graph& graph, const Node& a, const Node& b) {
  if (!(a.op == b.op) || !(a.epilogue == b.epilogue) || a.allowed_types != b.allowed_types ||
      a.inputs.size() != b.inputs.size() || a.inputs[0] != b.inputs[0])
    return false;
  for (size_t i = 1; i < a.inputs.size(); ++i)
    if (!same_type(graph.value(a.inputs[i]), graph.value(b.inputs[i]))) return false;
  return same_kind(graph.value(a.inputs[1]).quantization, graph.value(b.inputs[1]).quantization) &&
         same_type(graph.value(a.outputs[0]), graph.value(b.outputs[0]));
}

// That of the stack of these products' weights, which lie on grids; nullopt where no grid says it (it would
// have as many scales as rows).
std::optional<Quantization> stacked_grid(const Graph& graph, const std::vector<NodeId>& nodes) {
  const Node& first = graph.node(nodes[0]);
  const Value& weights = graph.value(first.inputs[1]);
  const Quantization& grid = *weights.quantization;
  const auto grid_of = [&](NodeId id) -> const Quantization& {
    return *graph.value(graph.node(id).inputs[1]).quantization;
  };
  const bool one_grid = grid.is_per_tensor() && std::all_of(nodes.begin(), nodes.end(),
                                                            [&](NodeId id) { return grid_of(id) == grid; });
  if (one_grid) return grid;
  const size_t columns = column_axis(std::get<MatMul>(first.op));
  Quantization all{.dtype = grid.dtype, .scales = {}, .zeros = {}, .axis = 2 - static_cast<int64_t>(columns)};
  for (const NodeId id : nodes)
    for (size_t c = 0; c < static_cast<size_t>(weights.shape[columns].value()); ++c) {
      all.scales.push_back(grid_of(id).scale(c));
      all.zeros.push_back(grid_of(id).zero(c));
    }
  const Dim& depth = weights.shape[1 - columns];
  const bool says = depth.is_constant(
      block_of(all, {static_cast<int64_t>(nodes.size()), weights.shape[0], weights.shape[1]}));
  return says ? std::optional(all) : std::nullopt;
}

// Input `index` of all nodes, one behind the other, as (count, rows, columns).
ValueId stack(Graph& graph, const std::vector<NodeId>& nodes, size_t index, const Extents& matrix) {
  const Value& first = graph.value(graph.node(nodes[0]).inputs[index]);
  Tensor whole = Tensor::allocate(first.dtype, {static_cast<int64_t>(nodes.size()), matrix[0], matrix[1]});
  std::byte* to = whole.mutable_bytes().data();
  std::vector<Tensor> parts;
  for (const NodeId node : nodes) {
    parts.push_back(graph.value(graph.node(node).inputs[index]).constant);
    const auto bytes = parts.back().bytes();
    std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  }
  whole = made_by(std::move(whole), Concat{.axis = 0}, std::move(parts));
  return GraphEditor(graph).add_constant(first.name + "_stack", std::move(whole));
}

ValueId as_rows(GraphEditor& editor, const std::string& name, ValueId x, NodeId before) {
  const Shape shape = editor.graph().value(x).shape;
  if (shape.size() == 2) return x;
  Dim rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows = rows * shape[i];
  return append_node(editor, name + "/rows", ReshapeOp{.shape = Shape{rows, shape.back()}}, {x}, {}, {}, 1,
                     before)[0];
}

void merge_into_one(Graph& graph, const std::vector<NodeId>& nodes, const std::optional<Quantization>& grid) {
  GraphEditor editor(graph);
  const Node first = graph.node(nodes[0]);
  const auto count = static_cast<int64_t>(nodes.size());
  std::vector<ValueId> inputs = {as_rows(editor, first.name, first.inputs[0], nodes[0])};
  inputs.push_back(stack(graph, nodes, 1, graph.value(first.inputs[1]).constant.extents()));
  if (grid) editor.set_quantization(inputs[1], grid);
  editor.set_quantization(inputs[0], graph.value(first.inputs[0]).quantization);
  const std::string name = first.name;
  const ValueId product =
      append_node(editor, name + "/stack", first.op, std::move(inputs), first.origins, {}, 1, nodes[0])[0];
  const NodeId merged = graph.value(product).producer;
  std::vector<ValueId> operands;
  for (size_t i = 2; i < first.inputs.size(); ++i)
    operands.push_back(stack(graph, nodes, i, {1, graph.value(first.inputs[i]).constant.size()}));
  editor.set_epilogue(merged, first.epilogue, std::move(operands));

  const auto parts = append_node(editor, name + "/split", Split{.axis = 0, .sizes = Shape(nodes.size(), 1)},
                                 {product}, {}, {}, static_cast<size_t>(count), nodes[0]);
  std::vector<ValueId> results;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = graph.node(nodes[i]);
    const ReshapeOp regroup{.shape = graph.value(node.outputs[0]).shape};
    results.push_back(append_node(editor, node.name + "/part", regroup, {parts[i]}, {}, {}, 1, nodes[0])[0]);
  }
  std::string merged_name;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node node = graph.node(nodes[i]);
    const std::string result = graph.value(node.outputs[0]).name;
    merged_name += (merged_name.empty() ? "" : " || ") + node.name;
    editor.absorb(merged, nodes[i]);
    editor.replace_uses(node.outputs[0], results[i]);
    editor.remove_node(nodes[i]);
    editor.rename_value(results[i], result);
  }
  editor.rename_node(merged, merged_name);
}

}  // namespace

bool merge_matmuls(Graph& graph, PassContext& context) {
  // Candidates by the operand that they share, in execution order.
  std::map<ValueId, std::vector<NodeId>> readers;
  for (const NodeId id : graph.order())
    if (may_merge_matmul(graph, id, context.stacks_grids)) readers[graph.node(id).inputs[0]].push_back(id);
  bool changed = false;
  for (auto& [x, rest] : readers) {
    while (rest.size() > 1) {
      std::vector<NodeId> same, others;
      for (const NodeId id : rest)
        (same_but_weights(graph, graph.node(rest[0]), graph.node(id)) ? same : others).push_back(id);
      rest = std::move(others);
      if (same.size() < 2) continue;
      const bool on_grids = graph.value(graph.node(same[0]).inputs[1]).quantization.has_value();
      const auto grid = on_grids ? stacked_grid(graph, same) : std::nullopt;
      if (on_grids != grid.has_value() || !context.may_change()) continue;
      context.report_fusion(graph, same.front(), same.back());
      merge_into_one(graph, same, grid);
      changed = true;
    }
  }
  return changed;
}

}  // namespace lathe
