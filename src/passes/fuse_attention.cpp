// SPDX-License-Identifier: Apache-2.0
//
// Scaled dot-product attention becomes one node:
//   MatMul(Softmax([MatMul(q [* a], k' [* b]) [* scale or / scale] [masks]]), v)
//     ->  Attention(q, k, v, [mask])
// with k' = k transposed. Masks are added, or stand in Where(condition, scores, -inf) or Where(condition,
// -inf, scores); several become one. The heads may be dim 1 of four or joined with the batch (rank 3), and
// Reshapes from the one to the other may stand anywhere between the products; so may casts to a wider type
// and back. k and v may have one head for all of q.
//
// Weights that are guarded, Where(IsNaN(weights), 0, weights), are those of Attention, which gives zeros
// where a row's mask forbids every key. That is what exporters guard against; a NaN among the operands stays
// one in Attention.
//
// Scales of q and k that stand above the shuffles that split heads are taken out there: products that make q,
// k and v are then alike (merge_matmuls).
//
// Must not fire when the scores or the weights of the softmax are read elsewhere, when the mask does not
// broadcast to the scores or is scaled with them, or when a Where fills with a number that is not out of
// reach of real scores.
#include <algorithm>
#include <cmath>

#include "ops/build.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// What is done to the scores between the first product and the softmax.
struct Mask {
  ValueId added = kNoValue;      // scores + added, or else
  ValueId condition = kNoValue;  // Where(condition, scores, fill)
  ValueId fill = kNoValue;
  bool forbids = false;  // Where(condition, fill, scores)
};

struct AttentionMatch {
  std::vector<NodeId> nodes;  // in data order, the last one gives the result
  ValueId q = kNoValue, k_transposed = kNoValue, v = kNoValue;
  bool k_is_transposed = true;  // false: `k_transposed` is k itself (the product transposes it)
  std::vector<Mask> masks;      // that of the softmax's own operand first
  double scale = 1;
  bool scaled = false;
  std::optional<Shape> heads;        // batch and heads, where a shape tells them apart
  std::vector<NodeId> scales_above;  // of q and k, in front of the shuffles that lead to them
};

const Shape& shape_of(const Graph& graph, ValueId value) {
  return graph.value(value).shape;
}
size_t rank_of(const Graph& graph, ValueId value) {
  return shape_of(graph, value).size();
}

// x of x * c, c * x and x / c, with the factor.
std::optional<WithScalar> scaled_value(const Graph& graph, NodeId node) {
  const bool mul = node != kNoNode && is_pointwise(graph, node, PointwiseCode::Mul);
  const bool div = node != kNoNode && is_pointwise(graph, node, PointwiseCode::Div);
  if (!mul && !div) return std::nullopt;
  auto operand = operand_with_scalar(graph, node);
  if (!operand || (div && operand->scalar_first) ||
      shape_of(graph, operand->value) != shape_of(graph, result_of(graph, node)))
    return std::nullopt;
  if (div) operand->scalar = 1 / operand->scalar;
  return operand;
}

// Follows scales upwards while nobody else reads the product; gives what is scaled and multiplies `scale`.
ValueId peel_scale(const Graph& graph, ValueId value, double& scale, std::vector<NodeId>& nodes) {
  while (true) {
    const NodeId node = graph.value(value).producer;
    const auto operand = sole_user(graph, value) ? scaled_value(graph, node) : std::nullopt;
    if (!operand) return value;
    scale *= operand->scalar;
    nodes.insert(nodes.begin(), node);
    value = operand->value;
  }
}

// The same above Reshapes and Transposes: what they shuffle could as well be scaled behind them.
void find_scales_above(const Graph& graph, ValueId value, AttentionMatch& match) {
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

// Rank 3 or 4; four dims say which are the heads. False when two shapes say different things.
bool note_heads(const Shape& shape, AttentionMatch& match) {
  if (shape.size() == 3) return true;
  if (shape.size() != 4) return false;
  const Shape heads = {shape[0], shape[1]};
  if (match.heads && *match.heads != heads) return false;
  match.heads = heads;
  return true;
}

// A node between the products that does not change the matrices of a value, but how they are counted or
// stored; else kNoValue.
ValueId same_matrices(const Graph& graph, ValueId value, bool towards_wide) {
  const NodeId node = graph.value(value).producer;
  if (node == kNoNode || !sole_user(graph, value)) return kNoValue;
  const ValueId inner = graph.node(node).inputs.empty() ? kNoValue : graph.node(node).inputs[0];
  if (plain_op<ReshapeOp>(graph, node)) {
    const Shape &from = shape_of(graph, inner), &to = shape_of(graph, value);
    const bool ranks = (from.size() == 3 || from.size() == 4) && (to.size() == 3 || to.size() == 4);
    return ranks && std::equal(from.end() - 2, from.end(), to.end() - 2) ? inner : kNoValue;
  }
  if (!plain_op<Cast>(graph, node)) return kNoValue;
  const DType from = graph.value(inner).dtype, to = graph.value(value).dtype;
  const DType wide = towards_wide ? to : from, narrow = towards_wide ? from : to;
  return wide == DType::Float32 && (narrow == DType::Float16 || narrow == DType::BFloat16) ? inner : kNoValue;
}

// Where(condition, scores, fill), either way round: gives the scores.
ValueId filled_scores(const Graph& graph, NodeId node, Mask& mask) {
  const auto& inputs = graph.node(node).inputs;
  mask.condition = inputs[0];
  mask.forbids = scalar_constant(graph, inputs[1]).has_value();
  mask.fill = inputs[mask.forbids ? 1 : 2];
  const auto fill = scalar_constant(graph, mask.fill);
  return fill && *fill <= kOutOfReach ? inputs[mask.forbids ? 2 : 1] : kNoValue;
}

bool match_product(const Graph& graph, NodeId product, AttentionMatch& match) {
  const auto* inner = plain_op<MatMul>(graph, product);
  if (!inner || inner->transpose_a) return false;
  match.nodes.insert(match.nodes.begin(), product);
  match.k_is_transposed = !inner->transpose_b;
  match.q = peel_scale(graph, graph.node(product).inputs[0], match.scale, match.nodes);
  match.k_transposed = peel_scale(graph, graph.node(product).inputs[1], match.scale, match.nodes);
  return true;
}

// The scores from the softmax's operand up to the product. Of a sum, either operand may be the one that leads
// there.
std::optional<AttentionMatch> match_scores(const Graph& graph, ValueId scores, AttentionMatch match) {
  const NodeId node = graph.value(scores).producer;
  if (node == kNoNode || !sole_user(graph, scores) || !note_heads(shape_of(graph, scores), match))
    return std::nullopt;
  if (match_product(graph, node, match)) return match;
  match.nodes.insert(match.nodes.begin(), node);
  if (const ValueId inner = same_matrices(graph, scores, true); inner != kNoValue)
    return match_scores(graph, inner, std::move(match));
  if (const auto operand = scaled_value(graph, node)) {
    match.scale *= operand->scalar;
    match.scaled = true;
    return match_scores(graph, operand->value, std::move(match));
  }
  if (match.scaled) return std::nullopt;
  const Shape& shape = shape_of(graph, scores);
  const auto behind = [&](ValueId inner, const Mask& mask, ValueId operand) -> std::optional<AttentionMatch> {
    if (inner == kNoValue || shape_of(graph, inner) != shape ||
        !broadcasts_to(shape_of(graph, operand), shape))
      return std::nullopt;
    AttentionMatch masked = match;
    masked.masks.push_back(mask);
    return match_scores(graph, inner, std::move(masked));
  };
  if (is_pointwise(graph, node, PointwiseCode::Where)) {
    Mask mask;
    const ValueId inner = filled_scores(graph, node, mask);
    return behind(inner, mask, mask.condition);
  }
  if (!is_pointwise(graph, node, PointwiseCode::Add)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId inner = graph.node(node).inputs[i], added = graph.node(node).inputs[1 - i];
    if (!same_float_type(graph, {inner, added})) continue;
    if (const auto found = behind(inner, {.added = added}, added)) return found;
  }
  return std::nullopt;
}

// Where(IsNaN(weights), 0, weights): gives the weights inside.
ValueId peel_guard(const Graph& graph, ValueId value, AttentionMatch& match) {
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

// The softmax's operand, from what the second product reads.
ValueId match_weights(const Graph& graph, ValueId weights, AttentionMatch& match) {
  const auto peel_same = [&] {
    for (ValueId inner; (inner = same_matrices(graph, weights, false)) != kNoValue; weights = inner) {
      if (!note_heads(shape_of(graph, weights), match)) return false;
      match.nodes.insert(match.nodes.begin(), graph.value(weights).producer);
    }
    return true;
  };
  if (!peel_same()) return kNoValue;
  const ValueId guarded = weights;
  weights = peel_guard(graph, guarded, match);
  if (weights == guarded && !sole_user(graph, weights)) return kNoValue;
  if (weights != guarded && !peel_same()) return kNoValue;
  const auto* softmax = producer_op<Softmax>(graph, weights);
  const auto rank = static_cast<int64_t>(rank_of(graph, weights));
  if (!softmax || softmax->log || (softmax->axis != -1 && softmax->axis != rank - 1) ||
      !note_heads(shape_of(graph, weights), match))
    return kNoValue;
  const NodeId node = graph.value(weights).producer;
  match.nodes.insert(match.nodes.begin(), node);
  return graph.node(node).inputs[0];
}

// Batch and heads of an operand are those of q, or k and v have one head for all.
bool operands_fit(const Graph& graph, AttentionMatch& match) {
  for (const ValueId v : {match.q, match.k_transposed, match.v})
    if (rank_of(graph, v) != 3 && rank_of(graph, v) != 4) return false;
  if (rank_of(graph, match.q) == 4 && !note_heads(shape_of(graph, match.q), match)) return false;
  const Shape heads = match.heads ? *match.heads : Shape{shape_of(graph, match.q)[0], 1};
  const auto fits = [&](ValueId value, bool may_share) {
    const Shape& shape = shape_of(graph, value);
    if (shape.size() == 3) return shape[0] == heads[0] * heads[1];
    return shape[0] == heads[0] && (shape[1] == heads[1] || (may_share && shape[1].is_constant(1)));
  };
  const auto count = [&](ValueId value) {
    return rank_of(graph, value) == 4 ? shape_of(graph, value)[1] : heads[1];
  };
  match.heads = heads;
  return fits(match.q, false) && fits(match.k_transposed, true) && fits(match.v, true) &&
         count(match.k_transposed) == count(match.v);
}

std::optional<AttentionMatch> match_attention(const Graph& graph, NodeId last) {
  const auto* outer = plain_op<MatMul>(graph, last);
  if (!outer || outer->transpose_a || outer->transpose_b) return std::nullopt;
  AttentionMatch start;
  start.nodes = {last};
  start.v = graph.node(last).inputs[1];
  const ValueId scores = match_weights(graph, graph.node(last).inputs[0], start);
  if (scores == kNoValue) return std::nullopt;
  auto match = match_scores(graph, scores, std::move(start));
  if (!match || !operands_fit(graph, *match) ||
      !same_float_type(graph, {match->q, match->k_transposed, match->v, result_of(graph, last)}))
    return std::nullopt;
  find_scales_above(graph, match->q, *match);
  find_scales_above(graph, match->k_transposed, *match);
  return match;
}

// (BH, S, D) as (B, H, S, D), masks of rank 3 likewise.
ValueId with_heads(Graph& graph, NodeId like, ValueId value, const Shape& heads) {
  Shape shape = graph.value(value).shape;
  if (shape.size() != 3 || shape[0] != heads[0] * heads[1]) return value;  // what is left broadcasts
  shape.erase(shape.begin());
  shape.insert(shape.begin(), heads.begin(), heads.end());
  return insert_layout(graph, like, "_heads", ReshapeOp{.shape = shape}, {value});
}

// All masks as one that is added, innermost first.
ValueId mask_of(Graph& graph, const AttentionMatch& match, NodeId last) {
  ValueId sum = kNoValue;
  for (auto mask = match.masks.rbegin(); mask != match.masks.rend(); ++mask) {
    if (mask->added != kNoValue) {
      const ValueId added = with_heads(graph, last, mask->added, *match.heads);
      sum = sum == kNoValue ? added
                            : insert_like(graph, last, "_mask", Pointwise{PointwiseCode::Add}, {sum, added});
      continue;
    }
    if (sum == kNoValue) {
      Tensor zero = Tensor::from_doubles(graph.value(mask->fill).dtype, {}, std::vector<double>{0});
      sum = GraphEditor(graph).add_constant("attention_keep", std::move(zero));
    }
    std::vector<ValueId> choices = {with_heads(graph, last, mask->condition, *match.heads), sum, mask->fill};
    if (mask->forbids) std::swap(choices[1], choices[2]);
    sum = insert_like(graph, last, "_mask", Pointwise{PointwiseCode::Where}, std::move(choices));
  }
  return sum;
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

void fuse_attention_at(Graph& graph, PassContext& context, const AttentionMatch& match) {
  const NodeId last = match.nodes.back();
  std::vector<ValueId> inputs = {match.q, match.k_transposed, match.v};
  if (match.k_is_transposed) {
    const Ints perm = rank_of(graph, match.k_transposed) == 4 ? Ints{0, 1, 3, 2} : Ints{0, 2, 1};
    inputs[1] = insert_layout(graph, last, "_k", Transpose{perm}, {inputs[1]});
  }
  for (ValueId& input : inputs) input = with_heads(graph, last, input, *match.heads);
  if (const ValueId mask = mask_of(graph, match, last); mask != kNoValue) inputs.push_back(mask);
  const Attention op{.scale = static_cast<float>(match.scale)};
  const ValueId old_result = result_of(graph, last);
  if (rank_of(graph, old_result) == 4) {
    replace_nodes(graph, context, match.nodes, op, inputs);
    take_scales(graph, graph.value(old_result).producer, match.scales_above);
    return;
  }
  // The node gives another shape: a Reshape behind it gives the old one.
  context.report_fusion(graph, match.nodes.front(), last);
  const Shape shape = shape_of(graph, old_result);
  const ValueId attention = insert_layout(graph, last, "_attention", op, inputs);
  const ValueId result = insert_layout(graph, last, "_layout", ReshapeOp{.shape = shape}, {attention});
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
    fuse_attention_at(graph, context, *match);
    changed = true;
  }
  return changed;
}

}  // namespace lathe
