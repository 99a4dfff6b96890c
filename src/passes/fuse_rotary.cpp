// SPDX-License-Identifier: Apache-2.0
//
// Rotary position embedding becomes one node. Its spellings, with a and b the two elements of each pair of x:
//   x * cos + Concat(-b, a) * sin                       halves: a = x[..., :R/2], b = x[..., R/2:]
//   x * cos + join(-b, a) * sin                         neighbours: a = x[..., 0::2], b = x[..., 1::2], join
//                                                       alternates
//   Concat(a * cos - b * sin, b * cos + a * sin)        halves, with cosines and sines of one element per
//                                                       pair
//   join(a * cos - b * sin, b * cos + a * sin)          neighbours, likewise (complex numbers as pairs)
//   Concat(Rotary(x[..., :R]), x[..., R:])   ->  Rotary(x)                   where only a part turns
//
// a and b are Slices, or outputs of one Split, of x; neighbours may also be columns of x reshaped to (...,
// R/2, 2). join is a Concat of (..., R/2, 1) along the last axis and a Reshape back. Cosines per pair are
// spread over both elements first.
//
// Must not fire when the turned half has its sign on the other side, when a part of x is another than the
// half, when the angles do not broadcast to x, or when a product is read elsewhere.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

using C = PointwiseCode;

// Elements start, start + step, ... of the last dim of `whole`, `count` of them.
struct RowPart {
  ValueId whole = kNoValue;
  int64_t start = 0, step = 1, count = 0;
  bool operator==(const RowPart&) const = default;
};

int64_t last_axis(const Graph& graph, ValueId value) {
  return static_cast<int64_t>(graph.value(value).shape.size()) - 1;
}
std::optional<int64_t> last_extent(const Graph& graph, ValueId value) {
  const Shape& shape = graph.value(value).shape;
  if (shape.empty() || !shape.back().is_constant()) return std::nullopt;
  return shape.back().value();
}

std::optional<RowPart> sliced_part(const Graph& graph, NodeId node) {
  const auto* op = plain_op<Slice>(graph, node);
  if (!op || !op->starts || !op->ends || op->axes.size() != 1) return std::nullopt;
  const ValueId whole = graph.node(node).inputs[0];
  const int64_t axis = positive_axis(graph, whole, op->axes[0]);
  const auto count = last_extent(graph, result_of(graph, node));
  if (axis != last_axis(graph, whole) || !(*op->starts)[0].is_constant() || !count) return std::nullopt;
  return RowPart{whole, (*op->starts)[0].value(), op->steps.empty() ? 1 : op->steps[0], *count};
}

std::optional<RowPart> split_part(const Graph& graph, NodeId node, ValueId value) {
  const auto* op = plain_op<Split>(graph, node);
  if (!op) return std::nullopt;
  const ValueId whole = graph.node(node).inputs[0];
  if (positive_axis(graph, whole, op->axis) != last_axis(graph, whole)) return std::nullopt;
  int64_t start = 0;
  for (size_t i = 0; i < op->sizes.size(); ++i) {
    if (!op->sizes[i].is_constant()) return std::nullopt;
    if (graph.node(node).outputs[i] == value) return RowPart{whole, start, 1, op->sizes[i].value()};
    start += op->sizes[i].value();
  }
  return std::nullopt;
}

// x as (..., R/2, 2), of which `value` is the column of even or odd elements, with or without its dim of 1.
std::optional<RowPart> column_part(const Graph& graph, NodeId node) {
  std::optional<int64_t> column;
  const ValueId pairs = graph.node(node).inputs.empty() ? kNoValue : graph.node(node).inputs[0];
  if (pairs == kNoValue) return std::nullopt;
  if (const auto* gather = plain_op<Gather>(graph, node)) {
    const auto index = scalar_constant(graph, graph.node(node).inputs[1]);
    const int64_t axis = positive_axis(graph, pairs, gather->axis);
    if (index && axis == last_axis(graph, pairs)) column = static_cast<int64_t>(*index) & 1;
  } else if (const auto part = sliced_part(graph, node); part && part->count == 1) {
    column = part->start;
  }
  const auto* reshape = producer_op<ReshapeOp>(graph, pairs);
  if (!column || !reshape || last_extent(graph, pairs) != 2) return std::nullopt;
  const ValueId x = graph.node(graph.value(pairs).producer).inputs[0];
  Shape split = graph.value(x).shape;
  const auto width = last_extent(graph, x);
  if (!width || *width % 2 != 0) return std::nullopt;
  split.back() = *width / 2;
  split.push_back(2);
  if (graph.value(pairs).shape != split) return std::nullopt;
  return RowPart{x, *column, 2, *width / 2};
}

// What a value is of another along the last dim, looking through a Reshape that only drops or adds a dim of 1
// at the end.
std::optional<RowPart> part_of(const Graph& graph, ValueId value) {
  for (int i = 0; i < 2; ++i) {
    const NodeId node = graph.value(value).producer;
    if (node == kNoNode) return std::nullopt;
    if (const auto part = column_part(graph, node)) return part;
    if (const auto part = sliced_part(graph, node)) return part;
    if (const auto part = split_part(graph, node, value)) return part;
    if (!plain_op<ReshapeOp>(graph, node)) return std::nullopt;
    value = graph.node(node).inputs[0];
  }
  return std::nullopt;
}

// Are a and b the two elements of each pair of one x?
struct Pairs {
  ValueId x = kNoValue;
  int64_t width = 0;
  bool interleaved = false;
};
std::optional<Pairs> pairs_of(const Graph& graph, ValueId a, ValueId b) {
  const auto first = part_of(graph, a), second = part_of(graph, b);
  if (!first || !second || first->whole != second->whole || first->count != second->count)
    return std::nullopt;
  const int64_t half = first->count;
  if (last_extent(graph, first->whole) != 2 * half) return std::nullopt;
  if (first->step == 1 && second->step == 1 && first->start == 0 && second->start == half)
    return Pairs{first->whole, 2 * half, false};
  if (first->step == 2 && second->step == 2 && first->start == 0 && second->start == 1)
    return Pairs{first->whole, 2 * half, true};
  return std::nullopt;
}

// A value made of two along its last dim: one behind the other, or alternating.
struct Joined {
  ValueId first = kNoValue, second = kNoValue;
  bool interleaved = false;
};
// `column` as (..., n, 1): what it was as (..., n).
ValueId without_column(const Graph& graph, ValueId column) {
  if (!producer_op<ReshapeOp>(graph, column)) return kNoValue;
  const ValueId value = graph.node(graph.value(column).producer).inputs[0];
  Shape wanted = graph.value(value).shape;
  wanted.push_back(1);
  return graph.value(column).shape == wanted ? value : kNoValue;
}
std::optional<Joined> joined_of(const Graph& graph, ValueId value) {
  const bool reshaped = producer_op<ReshapeOp>(graph, value) != nullptr;
  const ValueId joined = reshaped ? graph.node(graph.value(value).producer).inputs[0] : value;
  const auto* concat = producer_op<Concat>(graph, joined);
  if (!concat) return std::nullopt;
  const auto& inputs = graph.node(graph.value(joined).producer).inputs;
  const int64_t axis = positive_axis(graph, joined, concat->axis);
  if (inputs.size() != 2 || axis != last_axis(graph, joined)) return std::nullopt;
  if (!reshaped) return Joined{inputs[0], inputs[1], false};
  const Joined columns{without_column(graph, inputs[0]), without_column(graph, inputs[1]), true};
  if (columns.first == kNoValue || columns.second == kNoValue) return std::nullopt;
  Shape rows = graph.value(columns.first).shape;
  rows.back() = rows.back() * Dim(2);
  return graph.value(value).shape == rows ? std::optional(columns) : std::nullopt;
}

struct Factors {
  ValueId a = kNoValue, b = kNoValue;
};
std::optional<Factors> product_of(const Graph& graph, ValueId value) {
  const NodeId node = pointwise_producer(graph, value, C::Mul);
  if (node == kNoNode || !sole_user(graph, value)) return std::nullopt;
  return Factors{graph.node(node).inputs[0], graph.node(node).inputs[1]};
}
// The other factor of a product with `factor`.
ValueId times(const std::optional<Factors>& product, ValueId factor) {
  if (!product || product->a == product->b) return kNoValue;
  return product->a == factor ? product->b : product->b == factor ? product->a : kNoValue;
}

struct RotaryMatch {
  Pairs pairs;
  ValueId cosines = kNoValue, sines = kNoValue;
  bool per_pair = false;  // cosines and sines have one element for both of a pair
};

// Do the angles broadcast to rows of `width` elements of x, without making them more?
bool fit(const Graph& graph, const RotaryMatch& match) {
  Shape rows = graph.value(match.pairs.x).shape;
  rows.back() = match.per_pair ? match.pairs.width / 2 : match.pairs.width;
  for (const ValueId angles : {match.cosines, match.sines}) {
    const Shape& shape = graph.value(angles).shape;
    if (shape.empty() || shape.size() > rows.size() || shape.back() != rows.back()) return false;
    for (size_t d = 0; d < shape.size(); ++d)
      if (!shape[d].is_constant(1) && shape[d] != rows[d + rows.size() - shape.size()]) return false;
  }
  return same_float_type(graph, {match.pairs.x, match.cosines, match.sines});
}

// x * cos + turned * sin, where `turned` holds -b and a.
std::optional<RotaryMatch> match_turned(const Graph& graph, NodeId add) {
  const auto& sum = graph.node(add).inputs;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const auto with_sines = product_of(graph, sum[i]), with_cosines = product_of(graph, sum[1 - i]);
    if (!with_sines || !with_cosines) return std::nullopt;
    for (const ValueId turned : {with_sines->a, with_sines->b}) {
      const auto joined = joined_of(graph, turned);
      if (!joined || !sole_user(graph, turned)) continue;
      const NodeId negation = pointwise_producer(graph, joined->first, C::Neg);
      if (negation == kNoNode) continue;
      const auto pairs = pairs_of(graph, joined->second, graph.node(negation).inputs[0]);
      if (!pairs || pairs->interleaved != joined->interleaved) continue;
      RotaryMatch match{*pairs, times(with_cosines, pairs->x), times(with_sines, turned)};
      if (match.cosines != kNoValue && match.sines != kNoValue && fit(graph, match)) return match;
    }
  }
  return std::nullopt;
}

// a * cos - b * sin and b * cos + a * sin, joined.
std::optional<RotaryMatch> match_pairs(const Graph& graph, NodeId last) {
  const auto joined = joined_of(graph, result_of(graph, last));
  if (!joined || !sole_user(graph, joined->first) || !sole_user(graph, joined->second)) return std::nullopt;
  const NodeId sub = pointwise_producer(graph, joined->first, C::Sub),
               add = pointwise_producer(graph, joined->second, C::Add);
  if (sub == kNoNode || add == kNoNode) return std::nullopt;
  const auto minuend = product_of(graph, graph.node(sub).inputs[0]),
             subtrahend = product_of(graph, graph.node(sub).inputs[1]);
  if (!minuend || !subtrahend) return std::nullopt;
  for (const auto& [a, cosines] : {Factors{minuend->a, minuend->b}, Factors{minuend->b, minuend->a}})
    for (const auto& [b, sines] :
         {Factors{subtrahend->a, subtrahend->b}, Factors{subtrahend->b, subtrahend->a}}) {
      const auto pairs = pairs_of(graph, a, b);
      if (!pairs || pairs->interleaved != joined->interleaved) continue;
      const auto& sum = graph.node(add).inputs;
      const auto first = product_of(graph, sum[0]), second = product_of(graph, sum[1]);
      const bool fits = (times(first, b) == cosines && times(second, a) == sines) ||
                        (times(first, a) == sines && times(second, b) == cosines);
      const RotaryMatch match{*pairs, cosines, sines, true};
      if (fits && fit(graph, match)) return match;
    }
  return std::nullopt;
}

// One element per pair becomes one per element.
ValueId spread(Graph& graph, NodeId before, ValueId angles, bool interleaved) {
  if (!interleaved) return insert_like(graph, before, "_angles", Concat{.axis = -1}, {angles, angles});
  Shape column = graph.value(angles).shape, rows = column;
  column.push_back(1);
  rows.back() = rows.back() * Dim(2);
  const ValueId columns = insert_like(graph, before, "_column", ReshapeOp{.shape = column}, {angles});
  const ValueId twice = insert_like(graph, before, "_twice", Concat{.axis = -1}, {columns, columns});
  return insert_like(graph, before, "_angles", ReshapeOp{.shape = rows}, {twice});
}

// What computes `last` from the values in `operands`, in data order.
std::vector<NodeId> nodes_between(const Graph& graph, const std::vector<ValueId>& operands, NodeId last) {
  std::vector<NodeId> found = {last};
  for (size_t i = 0; i < found.size(); ++i)
    for (const ValueId input : graph.node(found[i]).inputs) {
      const NodeId node = input == kNoValue ? kNoNode : graph.value(input).producer;
      if (node == kNoNode || std::count(operands.begin(), operands.end(), input) > 0) continue;
      if (std::count(found.begin(), found.end(), node) == 0) found.push_back(node);
    }
  std::sort(found.begin(), found.end(), [&](NodeId a, NodeId b) { return graph.is_before(a, b); });
  return found;
}

bool fuse_rotary_at(Graph& graph, PassContext& context, NodeId last) {
  const auto match = is_pointwise(graph, last, C::Add) ? match_turned(graph, last) : match_pairs(graph, last);
  if (!match || graph.value(result_of(graph, last)).shape != graph.value(match->pairs.x).shape ||
      !context.may_change())
    return false;
  ValueId cosines = match->cosines, sines = match->sines;
  const std::vector<NodeId> nodes = nodes_between(graph, {match->pairs.x, cosines, sines}, last);
  if (match->per_pair) {
    cosines = spread(graph, last, cosines, match->pairs.interleaved);
    sines = spread(graph, last, sines, match->pairs.interleaved);
  }
  replace_nodes(graph, context, nodes, Rotary{.interleaved = match->pairs.interleaved},
                {cosines, sines, match->pairs.x});
  return true;
}

// Concat(Rotary(x[..., :R]), x[..., R:]) is a Rotary that keeps the rest.
bool join_rest(Graph& graph, PassContext& context, NodeId concat) {
  const auto* op = plain_op<Concat>(graph, concat);
  const auto& inputs = graph.node(concat).inputs;
  if (!op || inputs.size() != 2) return false;
  const auto* rotary = producer_op<Rotary>(graph, inputs[0]);
  const NodeId node = graph.value(inputs[0]).producer;
  if (!rotary || graph.node(node).outputs.size() != 1 || sole_user(graph, inputs[0]) != concat) return false;
  const auto turned = part_of(graph, graph.node(node).inputs[Rotary::kOperands]),
             rest = part_of(graph, inputs[1]);
  if (!turned || !rest || turned->whole != rest->whole || turned->step != 1 || rest->step != 1) return false;
  if (turned->start != 0 || rest->start != turned->count ||
      graph.value(result_of(graph, concat)).shape != graph.value(turned->whole).shape ||
      !context.may_change())
    return false;
  std::vector<ValueId> operands = graph.node(node).inputs;
  operands[Rotary::kOperands] = turned->whole;
  replace_nodes(graph, context, {node, concat}, *rotary, std::move(operands));
  return true;
}

}  // namespace

bool fuse_rotary(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed) continue;
    const bool ends =
        is_pointwise(graph, id, C::Add) || plain_op<Concat>(graph, id) || plain_op<ReshapeOp>(graph, id);
    if (ends) changed |= fuse_rotary_at(graph, context, id) || join_rest(graph, context, id);
  }
  return changed;
}

}  // namespace lathe
