// SPDX-License-Identifier: Apache-2.0
//
// A product with constant weights whose columns go separate ways becomes one product for each:
//   y = MatMul(x, W) [+ b];  q, k, v = columns of y       ->       q = MatMul(x, Wq) [+ bq]; k = ...; v = ...
// The columns of y are strided, so reading them apart would be a copy; three products write three dense
// results at the same number of operations, and merge_matmuls makes one of them where their shapes agree. The
// parts are Slices or one Split along the last dim, of y or of a Reshape that regroups its rows (a Gemm on
// flattened rows).
//
// Must not fire when anybody reads y as a whole, when parts overlap (work would grow), or when the weights
// are not constant.
#include <algorithm>
#include <cstring>

#include "ir/block_grid.h"
#include "ir/recipe.h"
#include "ops/build.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

struct ColumnPart {
  ValueId value = kNoValue;
  int64_t start = 0, length = 0;
};

// The parts of `whole` along its last dim; empty when somebody reads it otherwise.
std::vector<ColumnPart> column_parts(const Graph& graph, ValueId whole) {
  const Shape& shape = graph.value(whole).shape;
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  if (graph.is_output(whole) || last < 1 || !shape.back().is_constant()) return {};
  std::vector<ColumnPart> parts;
  for (NodeId user : graph.users(whole)) {
    const Node& node = graph.node(user);
    if (const auto* split = plain_op<Split>(graph, user)) {
      if (split->axis != last && split->axis != -1) return {};
      int64_t start = 0;
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (!split->sizes[i].is_constant()) return {};
        const int64_t length = split->sizes[i].value();
        if (node.outputs[i] != kNoValue) parts.push_back({node.outputs[i], start, length});
        start += length;
      }
    } else if (const auto* slice = plain_op<Slice>(graph, user)) {
      const bool along_last = slice->starts && slice->axes == Ints{last} && slice->steps == Ints{1};
      if (!along_last || !(*slice->starts)[0].is_constant() || !(*slice->ends)[0].is_constant()) return {};
      const int64_t start = (*slice->starts)[0].value();
      parts.push_back({node.outputs[0], start, (*slice->ends)[0].value() - start});
    } else {
      return {};
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const ColumnPart& a, const ColumnPart& b) { return a.start < b.start; });
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].length <= 0) return {};
    if (i > 0 && parts[i].start < parts[i - 1].start + parts[i - 1].length) return {};
  }
  return parts;
}

// Rows or columns of a constant of rank 1 or 2, whose elements are whole bytes.
ValueId slice_constant(Graph& graph, ValueId constant, int64_t axis, const ColumnPart& part) {
  const Value& value = graph.value(constant);
  const Tensor& whole = value.constant;
  Extents extents = whole.extents();
  const int64_t width = dtype_bytes(value.dtype, 1);
  const int64_t old_row = axis == 0 ? whole.size() * width : extents.back() * width;
  const int64_t unit = axis == 0 ? whole.size() / extents[0] * width : width;
  extents[static_cast<size_t>(axis)] = part.length;
  Tensor piece = Tensor::allocate(value.dtype, extents);
  const auto bytes = piece.mutable_bytes();
  const int64_t row = part.length * unit;
  for (int64_t at = 0, from = part.start * unit; at < static_cast<int64_t>(bytes.size());
       at += row, from += old_row) {
    std::memcpy(bytes.data() + at, whole.bytes().data() + from, static_cast<size_t>(row));
  }
  const Slice cut{
      .starts = Shape{part.start}, .ends = Shape{part.start + part.length}, .axes = {axis}, .steps = {1}};
  piece = made_by(std::move(piece), cut, {whole});
  const std::optional<Quantization> grid =
      value.quantization ? sliced(*value.quantization, value.shape, axis, part.start, part.length)
                         : std::nullopt;
  GraphEditor editor(graph);
  const ValueId result = editor.add_constant(value.name + "_" + std::to_string(part.start), std::move(piece));
  editor.set_quantization(result, grid);
  return result;
}

struct SplitProduct {
  NodeId matmul = kNoNode, bias = kNoNode;  // bias: an Add of a constant row, may be absent
  ValueId bias_row = kNoValue;
  NodeId regroup = kNoNode;  // a Reshape that keeps the last dim, may be absent
  std::vector<ColumnPart> parts;
};

std::optional<SplitProduct> match_split_product(const Graph& graph, NodeId id) {
  const auto* op = plain_op<MatMul>(graph, id);
  if (!op) return std::nullopt;
  const Value& weights = graph.value(graph.node(id).inputs[1]);
  if (!weights.is_constant() || !weights.constant.has_bytes() || weights.shape.size() != 2)
    return std::nullopt;
  SplitProduct product{.matmul = id};
  ValueId whole = result_of(graph, id);
  const auto user = sole_user(graph, whole);
  if (user && is_pointwise(graph, *user, PointwiseCode::Add)) {
    const ValueId row = other_operand(graph, *user, whole);
    if (row == kNoValue || !graph.value(row).is_constant()) return std::nullopt;
    const Value& value = graph.value(row);
    if (value.shape != Shape{graph.value(whole).shape.back()}) return std::nullopt;
    product.bias = *user;
    product.bias_row = row;
    whole = result_of(graph, *user);
  }
  if (const auto reader = sole_user(graph, whole)) {
    const auto* reshape = plain_op<ReshapeOp>(graph, *reader);
    const ValueId regrouped = graph.node(*reader).outputs[0];
    if (reshape && reshape->shape && !reshape->shape->empty() &&
        reshape->shape->back() == graph.value(whole).shape.back()) {
      product.regroup = *reader;
      whole = regrouped;
    }
  }
  product.parts = column_parts(graph, whole);
  if (product.parts.size() < 2) return std::nullopt;
  return product;
}

void split_product(Graph& graph, const SplitProduct& product) {
  GraphEditor editor(graph);
  const Node node = graph.node(product.matmul);
  const MatMul op = std::get<MatMul>(node.op);
  for (size_t i = 0; i < product.parts.size(); ++i) {
    const ColumnPart& part = product.parts[i];
    const NodeId reader = graph.value(part.value).producer;
    const std::string suffix = "_part_" + std::to_string(i);
    const ValueId weights = slice_constant(graph, node.inputs[1], op.transpose_b ? 0 : 1, part);
    // Before the product's old place, so that every reader comes later.
    ValueId value = insert_like(graph, product.matmul, suffix, op, {node.inputs[0], weights});
    if (product.bias != kNoNode) {
      const ValueId row = slice_constant(graph, product.bias_row, 0, part);
      const Node bias = graph.node(product.bias);
      value = append_node(editor, bias.name + suffix, bias.op, {value, row}, bias.origins, {}, 1,
                          product.matmul)[0];
    }
    if (product.regroup != kNoNode) {
      const Node regroup = graph.node(product.regroup);
      Shape shape = graph.value(result_of(graph, product.regroup)).shape;
      shape.back() = part.length;
      value = append_node(editor, regroup.name + suffix, ReshapeOp{.shape = shape}, {value}, regroup.origins,
                          {}, 1, product.matmul)[0];
    }
    if (editor.can_replace_uses(part.value, value)) editor.replace_uses(part.value, value);
    remove_if_unread(graph, reader);
  }
}

}  // namespace

bool split_matmuls(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed) continue;
    const auto product = match_split_product(graph, id);
    if (!product || !context.may_change()) continue;
    context.report_fusion(graph, id, graph.value(product->parts[0].value).producer);
    split_product(graph, *product);
    changed = true;
  }
  return changed;
}

}  // namespace lathe
