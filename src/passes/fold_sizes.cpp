// SPDX-License-Identifier: Apache-2.0
//
// Operands that say how large a result is become attributes, once their values are known:
//   Reshape(x, [1, 49, 4, 2])  ->  Reshape(x) {shape=[1, 49, 4, 2]}
//   Pad(x, [0, 0, 6, 0, 0, 0]) ->  Pad(x) {pads=[0, 0, 6, 0, 0, 0]}
// The same for Expand, Tile, Slice, Fill, Resize and Reduce. Import writes attributes where it knows the
// values; constants that folding finds, and dims that a profile fixes, make them known later. Passes and
// kernels look at attributes.
//
// Must not fire when one of the values, axes and steps included, is found by a run, nor when the result still
// names dims that the values define (fold_constants replaces those names first).
#include "ops/build.h"
#include "ops/movement.h"
#include "ops/shape_rules.h"
#include "passes/passes.h"

namespace lathe {
namespace {

struct Folded {
  Op op;
  std::vector<ValueId> inputs;
};

std::vector<ValueId> inputs_of(const Node& node, std::initializer_list<size_t> kept) {
  std::vector<ValueId> inputs;
  for (const size_t i : kept) inputs.push_back(node.has_op_input(i) ? node.inputs[i] : kNoValue);
  return inputs;
}

// Of an operator without its attributes; nullopt where one of them is not known.
struct FoldSizes {
  const Graph& graph;
  const Node& node;
  const Shape& result;

  std::optional<Folded> operator()(ReshapeOp op) const {
    if (op.shape || !contents(1)) return std::nullopt;
    op.shape = result;
    return Folded{op, inputs_of(node, {0})};
  }
  std::optional<Folded> operator()(Expand op) const {
    if (op.shape || !contents(1)) return std::nullopt;
    op.shape = result;
    return Folded{op, inputs_of(node, {0})};
  }
  std::optional<Folded> operator()(Tile op) const {
    if (op.repeats || !contents(1)) return std::nullopt;
    op.repeats = contents(1);
    return Folded{op, inputs_of(node, {0})};
  }
  std::optional<Folded> operator()(Fill op) const {
    if (op.shape || !contents(0)) return std::nullopt;
    op.shape = result;
    return Folded{op, {}};
  }
  std::optional<Folded> operator()(Pad op) const {
    const auto pads = contents(1);
    const auto axes = numbers(3);
    if (op.pads || !pads || (node.has_op_input(3) && !axes)) return std::nullopt;
    op.pads = pads_of_all_dims(*pads, axes, static_cast<int64_t>(result.size()));
    return Folded{op, {node.inputs[0], kNoValue, node.has_op_input(2) ? node.inputs[2] : kNoValue}};
  }
  std::optional<Folded> operator()(Slice op) const {
    const auto starts = contents(1), ends = contents(2);
    const auto axes = numbers(3), steps = numbers(4);
    if (op.starts || !starts || !ends || (node.has_op_input(3) && !axes) || (node.has_op_input(4) && !steps))
      return std::nullopt;
    const size_t count = starts->size();  // of the others, too, where inference has seen them all
    if (ends->size() != count || (axes && axes->size() != count) || (steps && steps->size() != count))
      return std::nullopt;
    const Shape& x = graph.value(node.inputs[0]).shape;
    op.starts = op.ends = Shape();
    for (size_t i = 0; i < count; ++i) {
      op.axes.push_back(normalize_axis(axes ? (*axes)[i] : static_cast<int64_t>(i),
                                       static_cast<int64_t>(x.size()), "axes"));
      op.steps.push_back(steps ? (*steps)[i] : 1);
      const SliceBounds bounds =
          clamp_slice((*starts)[i], (*ends)[i], op.steps.back(), x[static_cast<size_t>(op.axes.back())]);
      op.starts->push_back(bounds.start);
      op.ends->push_back(bounds.end);
    }
    return Folded{op, inputs_of(node, {0})};
  }
  std::optional<Folded> operator()(Resize op) const {
    if (!op.scales.empty() || op.sizes) return std::nullopt;
    if (is_some(2)) {
      const Tensor& scales = graph.value(node.inputs[2]).constant;
      if (!scales || !scales.has_bytes()) return std::nullopt;
      for (const double scale : scales.to_doubles()) op.scales.push_back(static_cast<float>(scale));
    } else {
      op.sizes = contents(3);
      if (!op.sizes) return std::nullopt;
    }
    return Folded{op, inputs_of(node, {0, 1})};
  }
  std::optional<Folded> operator()(Reduce op) const {
    const auto axes = numbers(1);
    if (op.axes || !axes) return std::nullopt;
    op.axes = axes;
    return Folded{op, inputs_of(node, {0})};
  }
  template <class Other>
  std::optional<Folded> operator()(const Other&) const {
    return std::nullopt;
  }

 private:
  // Whether the operand is there and has elements: an empty one is absent.
  bool is_some(size_t i) const {
    return node.has_op_input(i) && !(graph.value(node.inputs[i]).shape == Shape{Dim(0)});
  }
  std::optional<Shape> contents(size_t i) const {
    if (!node.has_op_input(i)) return std::nullopt;
    const Value* value = &graph.value(node.inputs[i]);
    return InferContext{.node_name = node.name, .inputs = {&value, 1}}.contents(0);
  }
  std::optional<Ints> numbers(size_t i) const {
    const auto known = contents(i);
    return known && is_static(*known) ? std::optional(to_extents(*known)) : std::nullopt;
  }
};

}  // namespace

bool fold_sizes(Graph& graph, PassContext& context) {
  bool changed = false;
  GraphEditor editor(graph);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!node.epilogue.empty() || !node.has_output(0)) continue;
    const Shape& result = graph.value(node.outputs[0]).shape;
    auto folded = std::visit(FoldSizes{graph, node, result}, node.op);
    if (!folded || !(infer_node(graph, node)[0].shape == result) || !context.may_change()) continue;
    editor.set_inputs(id, std::move(folded->inputs));
    editor.set_op(id, std::move(folded->op));
    changed = true;
  }
  return changed;
}

}  // namespace lathe
