// SPDX-License-Identifier: Apache-2.0
//
// A ScatterND whose indices count along the axes assigns to a part of a tensor, x[.., a:b, c:d] = u, which
// exporters write with a grid of all positions:
//   ScatterND(x, positions from a on along one axis, u)  ->  Concat(x up to a, u, x from a + u's extent on)
// or u alone, where the part is everything. With several parts the Concats stand inside of each other.
//
// The positions are followed through what exporters make them of: Range, casts, reshapes, Expand, sums with a
// constant, and one Concat of a component for each axis; or they are constants.
//
// Must not fire with a reduction, for positions in another order or with steps, nor where the part is not
// known to lie inside of x: the error would not be ScatterND's.
#include <algorithm>

#include "ops/contents.h"
#include "ops/op_def.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

constexpr int64_t kMostConstants = 1 << 16;  // elements of indices that are looked at
constexpr int kMostSteps = 64;               // nodes that are looked at for one component

// An integer tensor whose element is `start` plus its position along `axis`; -1: `start` everywhere.
struct Line {
  Dim start;
  int64_t axis = -1;
};

// Elements of a constant, `step` apart from `first` on.
std::optional<Line> line_of_constant(const Tensor& tensor, const Extents& extents, int64_t first,
                                     int64_t step) {
  const int64_t count = element_count(extents);
  if (!tensor.has_bytes() || tensor.size() > kMostConstants || count == 0) return std::nullopt;
  const std::vector<int64_t> values = tensor.to_int64s();
  const auto at = [&](int64_t i) { return values[static_cast<size_t>(first + i * step)]; };
  const int64_t start = at(0);
  // The axis along which the neighbour of the first element differs.
  int64_t inner = 1, axis = -1, stride = 1;
  for (size_t i = extents.size(); i-- > 0; inner *= extents[i])
    if (extents[i] > 1 && at(inner) != start) {
      if (axis >= 0) return std::nullopt;
      axis = static_cast<int64_t>(i);
      stride = inner;
    }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = axis < 0 ? 0 : i / stride % extents[static_cast<size_t>(axis)];
    if (at(i) != start + position) return std::nullopt;
  }
  return Line{Dim(start), axis};
}

std::optional<Dim> scalar_dim(const Graph& graph, ValueId id) {
  const std::optional<Shape> contents = contents_of(graph.value(id));
  return contents && contents->size() == 1 ? std::optional(contents->front()) : std::nullopt;
}

// The axis of `to` that an axis of `from` becomes when dims of one come and go; -1: none.
int64_t moved_axis(const Shape& from, const Shape& to, int64_t axis) {
  size_t k = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == Dim(1)) continue;
    while (k < to.size() && to[k] == Dim(1)) ++k;
    if (k == to.size() || !(to[k] == from[i])) return -1;
    if (static_cast<int64_t>(i) == axis) return static_cast<int64_t>(k);
    ++k;
  }
  return -1;
}

// The line as a tensor of shape `to`, to which one of shape `from` broadcasts.
std::optional<Line> broadcast(Line line, const Shape& from, const Shape& to) {
  if (line.axis < 0) return line;
  const Dim& extent = from[static_cast<size_t>(line.axis)];
  line.axis += static_cast<int64_t>(to.size() - from.size());
  if (extent == to[static_cast<size_t>(line.axis)]) return line;
  if (!(extent == Dim(1))) return std::nullopt;
  line.axis = -1;  // the first position, everywhere
  return line;
}

// `steps`: how many nodes may still be looked at.
std::optional<Line> line_of(const Graph& graph, ValueId id, int& steps) {
  const Value& value = graph.value(id);
  if (--steps < 0) return std::nullopt;
  if (value.is_constant())
    return is_static(value.shape) ? line_of_constant(value.constant, to_extents(value.shape), 0, 1)
                                  : std::nullopt;
  if (const auto start = scalar_dim(graph, id)) return Line{*start};
  if (value.producer == kNoNode || !graph.node(value.producer).epilogue.empty()) return std::nullopt;
  const Node& node = graph.node(value.producer);
  if (std::holds_alternative<Range>(node.op)) {
    const auto start = scalar_dim(graph, node.inputs[0]), delta = scalar_dim(graph, node.inputs[2]);
    return start && delta == Dim(1) ? std::optional(Line{*start, 0}) : std::nullopt;
  }
  if (const auto* op = std::get_if<Pointwise>(&node.op)) {
    if (op->code != PointwiseCode::Add) return std::nullopt;
    auto a = line_of(graph, node.inputs[0], steps), b = line_of(graph, node.inputs[1], steps);
    if (!a || !b || (a->axis >= 0 && b->axis >= 0)) return std::nullopt;
    const size_t counts = a->axis >= 0 ? 0 : 1;
    const Line sum{a->start + b->start, counts == 0 ? a->axis : b->axis};
    return broadcast(sum, graph.value(node.inputs[counts]).shape, value.shape);
  }
  const bool reshapes = std::holds_alternative<ReshapeOp>(node.op),
             casts = std::holds_alternative<Cast>(node.op);
  if (!reshapes && !casts && !std::holds_alternative<Expand>(node.op)) return std::nullopt;
  const Value& from = graph.value(node.inputs[0]);
  const auto holds_positions = [](DType type) { return type == DType::Int32 || type == DType::Int64; };
  if (casts && !(holds_positions(from.dtype) && holds_positions(value.dtype))) return std::nullopt;
  auto line = line_of(graph, node.inputs[0], steps);
  if (!line || line->axis < 0) return line;
  if (!reshapes) return broadcast(*line, from.shape, value.shape);
  line->axis = moved_axis(from.shape, value.shape, line->axis);
  return line->axis < 0 ? std::nullopt : line;
}

// The components of indices (.., k), each as a Line over the dims in front.
std::optional<std::vector<Line>> lines_of(const Graph& graph, ValueId indices) {
  const Value& value = graph.value(indices);
  if (value.shape.size() < 2 || !value.shape.back().is_constant()) return std::nullopt;
  const auto count = value.shape.back().value();
  std::vector<std::optional<Line>> lines;
  if (value.is_constant()) {
    if (!is_static(value.shape)) return std::nullopt;
    Extents extents = to_extents(value.shape);
    extents.pop_back();
    for (int64_t i = 0; i < count; ++i) lines.push_back(line_of_constant(value.constant, extents, i, count));
  } else if (const auto* concat = producer_op<Concat>(graph, indices);
             concat &&
             positive_axis(graph, indices, concat->axis) + 1 == static_cast<int64_t>(value.shape.size())) {
    for (const ValueId part : graph.node(value.producer).inputs) {
      int steps = kMostSteps;
      lines.push_back(line_of(graph, part, steps));
    }
  } else if (count == 1) {
    int steps = kMostSteps;
    lines.push_back(line_of(graph, indices, steps));
  }
  if (count < 1 || static_cast<int64_t>(lines.size()) != count) return std::nullopt;
  std::vector<Line> all;
  for (const auto& line : lines) {
    if (!line || line->axis + 1 == static_cast<int64_t>(value.shape.size())) return std::nullopt;
    all.push_back(*line);
  }
  return all;
}

// The part of x that is assigned to: along each axis.
struct Part {
  Dim start, end;
  bool all = true;
};

std::optional<std::vector<Part>> part_of(const Graph& graph, const Node& node) {
  const Shape &x = graph.value(node.inputs[0]).shape, &u = graph.value(node.inputs[2]).shape;
  const auto lines = lines_of(graph, node.inputs[1]);
  if (!lines || lines->size() > x.size() || u.size() != x.size()) return std::nullopt;
  std::vector<Part> parts;
  for (size_t i = 0; i < x.size(); ++i) {
    Part part{Dim(0), x[i]};
    if (i < lines->size()) {
      const Line& line = (*lines)[i];
      if (!(graph.value(node.inputs[1]).shape[i] == u[i])) return std::nullopt;
      // One position along the axis need not say so.
      if (line.axis != static_cast<int64_t>(i) && !(line.axis < 0 && u[i] == Dim(1))) return std::nullopt;
      part = {line.start, line.start + u[i]};
      part.all = part.start == Dim(0) && part.end == x[i];
      if (!is_never_negative(part.start) || !(part.end == x[i] || is_never_negative(x[i] - part.end)))
        return std::nullopt;
    } else if (!(u[i] == x[i])) {
      return std::nullopt;
    }
    parts.push_back(part);
  }
  return parts;
}

ValueId slice(Graph& graph, NodeId like, ValueId x, size_t axis, const Dim& from, const Dim& to) {
  const Slice op{
      .starts = Shape{from}, .ends = Shape{to}, .axes = {static_cast<int64_t>(axis)}, .steps = {1}};
  return insert_like(graph, like, "/rest", op, {x});
}

bool assign_part(Graph& graph, PassContext& context, NodeId id) {
  const auto* op = plain_op<ScatterND>(graph, id);
  if (!op || op->reduction != ScatterReduction::None) return false;
  const Node node = graph.node(id);
  const auto parts = part_of(graph, node);
  GraphEditor editor(graph);
  const ValueId result = node.outputs[0];
  if (!parts) return false;
  const bool all = std::all_of(parts->begin(), parts->end(), [](const Part& part) { return part.all; });
  if (all && !editor.can_replace_uses(result, node.inputs[2])) return false;
  if (!context.may_change()) return false;
  context.report_removal(graph, id);
  if (all) {
    editor.replace_uses(result, node.inputs[2]);
    remove_if_unread(graph, id);
    return true;
  }
  // x at each level: what the levels further out assign to.
  std::vector<size_t> axes;
  std::vector<ValueId> sources;
  ValueId source = node.inputs[0];
  for (size_t i = 0; i < parts->size(); ++i) {
    if ((*parts)[i].all) continue;
    if (!axes.empty())
      source = slice(graph, id, source, axes.back(), (*parts)[axes.back()].start, (*parts)[axes.back()].end);
    axes.push_back(i);
    sources.push_back(source);
  }
  ValueId inside = node.inputs[2];
  for (size_t level = axes.size(); level-- > 0;) {
    const Part& part = (*parts)[axes[level]];
    const Dim extent = graph.value(sources[level]).shape[axes[level]];
    std::vector<ValueId> pieces;
    if (!(part.start == Dim(0)))
      pieces.push_back(slice(graph, id, sources[level], axes[level], Dim(0), part.start));
    pieces.push_back(inside);
    if (!(part.end == extent))
      pieces.push_back(slice(graph, id, sources[level], axes[level], part.end, extent));
    inside = insert_like(graph, id, "/part", Concat{.axis = static_cast<int64_t>(axes[level])}, pieces);
  }
  const NodeId last = graph.value(inside).producer;
  editor.take_over_outputs(last, id);
  editor.rename_node(last, node.name);
  return true;
}

}  // namespace

bool simplify_slice_updates(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= assign_part(graph, context, id);
  return changed;
}

}  // namespace lathe
