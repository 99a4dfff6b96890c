// SPDX-License-Identifier: Apache-2.0
//
// Scaled dot-product attention becomes one node:
//   MatMul(Softmax([MatMul(q [* a], k' [* b]) [* scale or / scale] [+ mask]]), v)  ->  Attention(q, k, v, [mask])
// with k' = k transposed. Where(condition, scores, -inf) and Where(condition, -inf, scores) count as masks too. The heads may
// be dim 1 of four, or already joined with the batch (rank 3).
//
// Weights that are guarded, Where(IsNaN(weights), 0, weights), are those of Attention, which gives zeros where a row's mask
// forbids every key. That is what exporters guard against; a NaN among the operands stays one in Attention.
//
// Where q, k, v come from a Transpose that splits heads ([B, S, H, D] -> [B, H, S, D]) the node takes layout BSHD: it is
// wrapped in the inverse Transposes, which simplify_shuffles cancels against the exporter's, so that no data moves.
//
// Scales of q and k that stand above the shuffles that split heads are taken out there: products that make q, k and v are then
// alike (merge_matmuls).
//
// Must not fire when the scores or the weights of the softmax are read elsewhere, when the mask does not broadcast to the
// scores, or when a Where fills with a number that is not out of reach of real scores.
#include <algorithm>
#include <cmath>

#include "ops/build.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// A fill that swallows any score it is added to, so adding and replacing are the same.
constexpr double kOutOfReach = -1e30;

struct Match {
  std::vector<NodeId> nodes;  // in data order, the last one gives the result
  ValueId q = kNoValue, k_transposed = kNoValue, v = kNoValue;
  bool k_is_transposed = true;  // false: `k_transposed` is k itself (the product transposes it)
  ValueId mask = kNoValue;
  ValueId where_condition = kNoValue;  // Where(condition, scores, fill); becomes a mask
  ValueId where_fill = kNoValue;
  bool where_forbids = false;  // Where(condition, fill, scores)
  double scale = 1;
  std::vector<NodeId> scales_above;  // of q and k, in front of the shuffles that lead to them
};

size_t rank_of(const Graph& graph, ValueId value) {
  return graph.value(value).shape.size();
}

// Follows x * c, c * x and x / c upwards while nobody else reads the product; gives x and multiplies `scale`.
ValueId peel_scale(const Graph& graph, ValueId value, double& scale, std::vector<NodeId>& nodes) {
  while (true) {
    const NodeId node = graph.value(value).producer;
    const bool mul = node != kNoNode && is_pointwise(graph, node, PointwiseCode::Mul);
    const bool div = node != kNoNode && is_pointwise(graph, node, PointwiseCode::Div);
    if ((!mul && !div) || !sole_user(graph, value)) return value;
    const auto operand = operand_with_scalar(graph, node);
    if (!operand || (div && operand->scalar_first) ||
        graph.value(operand->value).shape != graph.value(value).shape)
      return value;
    scale *= mul ? operand->scalar : 1 / operand->scalar;
    nodes.insert(nodes.begin(), node);
    value = operand->value;
  }
}

// The same above Reshapes and Transposes: what they shuffle could as well be scaled behind them.
void find_scales_above(const Graph& graph, ValueId value, Match& match) {
  while (sole_user(graph, value) &&
         (producer_op<ReshapeOp>(graph, value) || producer_op<Transpose>(graph, value)))
    value = graph.node(graph.value(value).producer).inputs[0];
  std::vector<NodeId> found;
  peel_scale(graph, value, match.scale, found);
  match.scales_above.insert(match.scales_above.end(), found.begin(), found.end());
}

bool broadcasts_to(const Shape& shape, const Shape& target) {
  if (shape.size() > target.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim &dim = shape[i], &wanted = target[target.size() - shape.size() + i];
    if (!dim.is_constant(1) && dim != wanted) return false;
  }
  return true;
}

// scores [+ mask] or Where(condition, scores, fill): gives the scores below.
ValueId peel_mask(const Graph& graph, ValueId value, Match& match) {
  const NodeId node = graph.value(value).producer;
  if (node == kNoNode || !sole_user(graph, value)) return value;
  const Shape& shape = graph.value(value).shape;
  const auto leads_to_product = [&](ValueId v) {
    double unused = 1;
    std::vector<NodeId> nodes;
    return sole_user(graph, v) && producer_op<MatMul>(graph, peel_scale(graph, v, unused, nodes));
  };
  if (is_pointwise(graph, node, PointwiseCode::Add)) {
    for (size_t i = 0; i < 2; ++i) {
      const ValueId scores = graph.node(node).inputs[i], mask = graph.node(node).inputs[1 - i];
      if (!leads_to_product(scores) || graph.value(scores).shape != shape) continue;
      if (!broadcasts_to(graph.value(mask).shape, shape) || !same_float_type(graph, {scores, mask})) continue;
      match.mask = mask;
      match.nodes.insert(match.nodes.begin(), node);
      return scores;
    }
  }
  if (is_pointwise(graph, node, PointwiseCode::Where)) {
    const auto& inputs = graph.node(node).inputs;
    const bool forbids = scalar_constant(graph, inputs[1]).has_value();
    const ValueId scores = inputs[forbids ? 2 : 1], filled = inputs[forbids ? 1 : 2];
    const auto fill = scalar_constant(graph, filled);
    if (!fill || !(*fill <= kOutOfReach) || !leads_to_product(scores)) return value;
    if (graph.value(scores).shape != shape || !broadcasts_to(graph.value(inputs[0]).shape, shape))
      return value;
    match.where_condition = inputs[0];
    match.where_fill = filled;
    match.where_forbids = forbids;
    match.nodes.insert(match.nodes.begin(), node);
    return scores;
  }
  return value;
}

// Where(IsNaN(weights), 0, weights): gives the weights inside.
ValueId peel_guard(const Graph& graph, ValueId value, Match& match) {
  const NodeId where = pointwise_producer(graph, value, PointwiseCode::Where);
  if (where == kNoNode || !sole_user(graph, value)) return value;
  const auto& inputs = graph.node(where).inputs;
  const NodeId is_nan = pointwise_producer(graph, inputs[0], PointwiseCode::IsNaN);
  const ValueId weights = inputs[2];
  if (is_nan == kNoNode || graph.node(is_nan).inputs[0] != weights || sole_user(graph, inputs[0]) != where ||
      scalar_constant(graph, inputs[1]) != 0.0 || graph.is_output(weights) ||
      graph.users(weights).size() != 2)
    return value;
  match.nodes.insert(match.nodes.begin(), {is_nan, where});
  return weights;
}

std::optional<Match> match_attention(const Graph& graph, NodeId last) {
  const auto* outer = plain_op<MatMul>(graph, last);
  if (!outer || outer->transpose_a || outer->transpose_b) return std::nullopt;
  Match match;
  match.nodes = {last};
  const ValueId guarded = graph.node(last).inputs[0];
  const ValueId weights = peel_guard(graph, guarded, match);
  match.v = graph.node(last).inputs[1];
  const auto* softmax = producer_op<Softmax>(graph, weights);
  const size_t rank = rank_of(graph, weights);
  if (!softmax || softmax->log || sole_user(graph, guarded) != last || (rank != 3 && rank != 4))
    return std::nullopt;
  if (softmax->axis != -1 && softmax->axis != static_cast<int64_t>(rank) - 1) return std::nullopt;
  const NodeId softmax_node = graph.value(weights).producer;
  match.nodes.insert(match.nodes.begin(), softmax_node);
  ValueId scores = peel_mask(graph, graph.node(softmax_node).inputs[0], match);
  scores = peel_scale(graph, scores, match.scale, match.nodes);
  const auto* inner = producer_op<MatMul>(graph, scores);
  if (!inner || inner->transpose_a || !sole_user(graph, scores)) return std::nullopt;
  const NodeId product = graph.value(scores).producer;
  match.nodes.insert(match.nodes.begin(), product);
  match.k_is_transposed = !inner->transpose_b;
  match.q = peel_scale(graph, graph.node(product).inputs[0], match.scale, match.nodes);
  match.k_transposed = peel_scale(graph, graph.node(product).inputs[1], match.scale, match.nodes);
  if (rank_of(graph, match.q) != rank || rank_of(graph, match.k_transposed) != rank ||
      rank_of(graph, match.v) != rank) {
    return std::nullopt;
  }
  // Batch and heads are the same everywhere: the product of Attention does not broadcast.
  for (size_t i = 0; i + 2 < rank; ++i) {
    const Dim& dim = graph.value(match.q).shape[i];
    if (graph.value(match.k_transposed).shape[i] != dim || graph.value(match.v).shape[i] != dim)
      return std::nullopt;
  }
  if (!same_float_type(graph, {match.q, match.k_transposed, match.v, result_of(graph, last)}))
    return std::nullopt;
  find_scales_above(graph, match.q, match);
  find_scales_above(graph, match.k_transposed, match);
  return match;
}

// Does a Transpose give this value by swapping dims 1 and 2 (and, for k', then the last two)?
bool splits_heads(const Graph& graph, ValueId value, bool transposed) {
  const auto* op = producer_op<Transpose>(graph, value);
  return op && op->perm == (transposed ? Ints{0, 2, 3, 1} : Ints{0, 2, 1, 3});
}
bool splits_heads_in_two_steps(const Graph& graph, ValueId value) {
  const auto* swap = producer_op<Transpose>(graph, value);
  if (!swap || swap->perm != Ints{0, 1, 3, 2}) return false;
  return splits_heads(graph, graph.node(graph.value(value).producer).inputs[0], false);
}

ValueId mask_of(Graph& graph, const Match& match, NodeId last) {
  if (match.where_condition == kNoValue) return match.mask;
  const ValueId fill = match.where_fill;
  Tensor zero = Tensor::from_doubles(graph.value(fill).dtype, {}, std::vector<double>{0});
  const ValueId keep = GraphEditor(graph).add_constant("attention_keep", std::move(zero));
  std::vector<ValueId> choices = {match.where_condition, keep, fill};
  if (match.where_forbids) std::swap(choices[1], choices[2]);
  return insert_like(graph, last, "_mask", Pointwise{PointwiseCode::Where}, std::move(choices));
}

// A node before `like` that implements no ONNX node: it only brings an operand into the layout that Attention wants.
ValueId insert_layout(Graph& graph, NodeId like, std::string_view suffix, Op op,
                      std::vector<ValueId> inputs) {
  GraphEditor editor(graph);
  const std::string name = graph.node(like).name + std::string(suffix);
  return append_node(editor, name, std::move(op), std::move(inputs), {}, {}, 1, like)[0];
}

// (BH, S, D) as (BH, 1, S, D); masks of rank 3 likewise.
ValueId with_one_head(Graph& graph, NodeId like, ValueId value) {
  Shape shape = graph.value(value).shape;
  if (shape.size() != 3) return value;
  shape.insert(shape.begin() + 1, 1);
  return insert_layout(graph, like, "_heads", ReshapeOp{.shape = shape}, {value});
}

// Attention does what these nodes did.
void take_scales(Graph& graph, NodeId attention, const std::vector<NodeId>& scales) {
  GraphEditor editor(graph);
  for (const NodeId node : scales) {
    editor.absorb(attention, node);
    editor.replace_uses(result_of(graph, node), operand_with_scalar(graph, node)->value);
    remove_if_unread(graph, node);
  }
}

void fuse(Graph& graph, PassContext& context, const Match& match) {
  const NodeId last = match.nodes.back();
  const bool rank_4 = rank_of(graph, match.q) == 4;
  const bool k_splits = match.k_is_transposed ? splits_heads(graph, match.k_transposed, true) ||
                                                    splits_heads_in_two_steps(graph, match.k_transposed)
                                              : splits_heads(graph, match.k_transposed, false);
  const int split_count =
      splits_heads(graph, match.q, false) + k_splits + splits_heads(graph, match.v, false);
  // Worth it when most of the operands lose a Transpose; the one behind the result usually goes as well.
  const bool bshd = rank_4 && split_count >= 2;
  const Ints swap_heads = {0, 2, 1, 3};

  std::vector<ValueId> inputs = {match.q, match.k_transposed, match.v};
  if (match.k_is_transposed) {
    const Ints perm = rank_4 ? Ints{0, 1, 3, 2} : Ints{0, 2, 1};
    inputs[1] = insert_layout(graph, last, "_k", Transpose{perm}, {inputs[1]});
  }
  const ValueId mask = mask_of(graph, match, last);
  for (ValueId& input : inputs) {
    input = rank_4 ? input : with_one_head(graph, last, input);
    if (bshd) input = insert_layout(graph, last, "_bshd", Transpose{swap_heads}, {input});
  }
  if (mask != kNoValue) inputs.push_back(rank_4 ? mask : with_one_head(graph, last, mask));
  const Attention op{.scale = static_cast<float>(match.scale),
                     .layout = bshd ? AttentionLayout::BSHD : AttentionLayout::BHSD};
  const ValueId old_result = result_of(graph, last);
  if (rank_4 && !bshd) {
    replace_nodes(graph, context, match.nodes, op, inputs);
    take_scales(graph, graph.value(old_result).producer, match.scales_above);
    return;
  }
  // The node gives another shape: a Reshape or Transpose behind it gives the old one.
  context.report_fusion(graph, match.nodes.front(), last);
  const Shape shape = graph.value(old_result).shape;
  const ValueId attention = insert_layout(graph, last, "_attention", op, inputs);
  const ValueId result = insert_layout(
      graph, last, "_layout", bshd ? Op(Transpose{swap_heads}) : Op(ReshapeOp{.shape = shape}), {attention});
  const NodeId fused = graph.value(attention).producer;
  GraphEditor editor(graph);
  std::string name;
  for (NodeId node : match.nodes) {
    name += (name.empty() ? "" : " + ") + graph.node(node).name;
    editor.absorb(fused, node);
  }
  editor.replace_uses(old_result, result);
  for (auto it = match.nodes.rbegin(); it != match.nodes.rend(); ++it) remove_if_unread(graph, *it);
  editor.rename_node(fused, name);
  take_scales(graph, fused, match.scales_above);
}

}  // namespace

bool fuse_attention(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed) continue;
    const auto match = match_attention(graph, id);
    if (!match || !context.may_change()) continue;
    fuse(graph, context, *match);
    changed = true;
  }
  return changed;
}

}  // namespace lathe
