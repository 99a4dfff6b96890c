// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms for a backend that has no fast ones. A transform of a known, moderate length is a
// linear map, and its matrix is the transform of the unit vectors:
//   DFT(x)            ->  Reshape(MatMul(Reshape(x), matrix)), between Transposes where the axis is not the
//                         last but one
//   STFT(x, window)   ->  Reshape(Transpose(Conv(Transpose(x), filters))), one pair of filters per bin,
//                         strides = step
//
// Must not fire when the backend has the operator, whose fast transform needs less than a tenth of the time;
// when length, axis, step or window are known only at run time; or when the matrix would be large.
#include <numeric>
#include <optional>

#include "ops/op_def.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

constexpr int64_t kLongestMatrix = 1024;  // points: 4 MiB of a one-sided transform of reals

bool is_moderate(const Dim& points) {
  return points.is_constant() && points.value() >= 1 && points.value() <= kLongestMatrix;
}

// The one element of an integer operand; nothing when it is absent or only a run knows it.
std::optional<int64_t> known_number(const Graph& graph, const Node& node, size_t i) {
  if (!node.has_op_input(i)) return std::nullopt;
  const Value& value = graph.value(node.inputs[i]);
  if (!value.is_constant() || !value.constant.has_bytes() || value.constant.size() != 1) return std::nullopt;
  return value.constant.to_int64s().front();
}

// What `op` makes of each unit vector of `points` real or complex points, times its element of the window: a
// tensor (points * parts, points of the result, parts of the result).
Tensor transformed_units(const DFT& op, DType dtype, int64_t points, int64_t parts,
                         std::optional<int64_t> length, const Tensor& window) {
  const int64_t count = points * parts;
  const std::vector<double> factors =
      window ? window.to_doubles() : std::vector<double>(static_cast<size_t>(points), 1);
  std::vector<double> units(static_cast<size_t>(count * count));
  for (int64_t i = 0; i < count; ++i)
    units[static_cast<size_t>(i * count + i)] = factors[static_cast<size_t>(i / parts)];
  std::vector<Tensor> inputs = {Tensor::from_doubles(dtype, {count, points, parts}, units)};
  if (length) inputs.push_back(Tensor::scalar_i64(*length));
  return find_op_def(op).evaluate(op, EvaluateContext{.inputs = inputs})[0];
}

// The axis of a transform whose sizes are known, and moderate; else nothing.
std::optional<size_t> matrix_axis(const Graph& graph, const Node& node) {
  const Shape& shape = graph.value(node.inputs[0]).shape;
  const auto length = known_number(graph, node, 1);
  const auto axis = node.has_op_input(2) ? known_number(graph, node, 2) : std::optional<int64_t>(-2);
  if (!axis || !shape.back().is_constant() || (node.has_op_input(1) && !length)) return std::nullopt;
  const auto at = static_cast<size_t>(normalize_axis(*axis, static_cast<int64_t>(shape.size()), "DFT"));
  if (!is_moderate(shape[at]) || (length && !is_moderate(*length))) return std::nullopt;
  return at;
}

void lower_dft(Graph& graph, NodeId id, const DFT& op, size_t axis) {
  const Node node = graph.node(id);
  const ValueId x = node.inputs[0];
  Shape shape = graph.value(x).shape;
  const size_t back = shape.size() - 2;
  Ints swap(shape.size());
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[axis], swap[back]);
  std::swap(shape[axis], shape[back]);
  const bool moves = axis != back;

  const int64_t points = shape[back].value(), parts = shape.back().value();
  const Tensor matrix =
      transformed_units(op, graph.value(x).dtype, points, parts, known_number(graph, node, 1), {});
  const Extents to = matrix.extents();
  Shape flat(shape.begin(), shape.end() - 2);
  flat.push_back(points * parts);
  shape[back] = to[1];
  shape.back() = to[2];

  const ValueId weights = GraphEditor(graph).add_constant(node.name + "_matrix",
                                                          matrix.reshaped({points * parts, to[1] * to[2]}));
  const ValueId front = moves ? insert_like(graph, id, "_axis_to_back", Transpose{swap}, {x}) : x;
  const ValueId rows = insert_like(graph, id, "_points", ReshapeOp{.shape = flat}, {front});
  const ValueId product = insert_like(graph, id, "_product", MatMul{}, {rows, weights});
  const ReshapeOp pairs{.shape = shape};
  GraphEditor editor(graph);
  if (!moves) {
    editor.set_op(id, pairs);
    editor.set_inputs(id, {product});
    return;
  }
  const ValueId last = insert_like(graph, id, "_pairs", pairs, {product});
  editor.set_op(id, Transpose{swap});
  editor.set_inputs(id, {last});
}

// What of an STFT its convolution has: points of a frame, and the step.
struct Frames {
  int64_t points = 1, step = 1;
  Tensor window;  // none: all ones
};

std::optional<Frames> known_frames(const Graph& graph, const Node& node) {
  const Shape& signal = graph.value(node.inputs[0]).shape;
  const auto step = known_number(graph, node, 1);
  Frames frames{.step = step.value_or(1)};
  Dim points = signal[1];
  if (node.has_op_input(2)) {
    const Value& window = graph.value(node.inputs[2]);
    if (!window.is_constant() || !window.constant.has_bytes()) return std::nullopt;
    frames.window = window.constant;
    points = window.shape[0];
  } else if (node.has_op_input(3)) {
    const auto length = known_number(graph, node, 3);
    if (!length) return std::nullopt;
    points = *length;
  }
  if (!step || !is_moderate(points) || !signal[2].is_constant()) return std::nullopt;
  frames.points = points.value();
  return frames;
}

void lower_stft(Graph& graph, NodeId id, const STFT& op, const Frames& frames) {
  const Node node = graph.node(id);
  const Value& signal = graph.value(node.inputs[0]);
  const int64_t parts = signal.shape[2].value();
  const Tensor matrix = transformed_units(DFT{.onesided = op.onesided}, signal.dtype, frames.points, parts,
                                          std::nullopt, frames.window);
  const int64_t bins = matrix.extents()[1];
  const Transpose turn{{2, 1, 0}};
  const Tensor columns = matrix.reshaped({frames.points, parts, bins * 2});
  const Tensor filters =
      find_op_def(turn).evaluate(turn, EvaluateContext{.inputs = std::vector<Tensor>{columns}})[0];
  const Conv conv{.kernel = {frames.points},
                  .strides = {frames.step},
                  .dilations = {1},
                  .pads_begin = {0},
                  .pads_end = {0}};
  const Transpose swap{{0, 2, 1}};
  const Shape shape = graph.value(node.outputs[0]).shape;
  const ValueId weights = GraphEditor(graph).add_constant(node.name + "_filters", filters);
  const ValueId planes = insert_like(graph, id, "_signal", swap, {node.inputs[0]});
  const ValueId sums = insert_like(graph, id, "_frames", conv, {planes, weights});
  const ValueId rows = insert_like(graph, id, "_rows", swap, {sums});
  GraphEditor editor(graph);
  editor.set_op(id, ReshapeOp{.shape = shape});
  editor.set_inputs(id, {rows});
}

bool lower(Graph& graph, PassContext& context, NodeId id) {
  if (const auto* dft = plain_op<DFT>(graph, id); dft && !context.has_operator(DFT::kName)) {
    const DFT op = *dft;
    const auto axis = matrix_axis(graph, graph.node(id));
    if (!axis || !context.may_change()) return false;
    context.report_removal(graph, id);
    lower_dft(graph, id, op, *axis);
    return true;
  }
  if (const auto* stft = plain_op<STFT>(graph, id); stft && !context.has_operator(STFT::kName)) {
    const STFT op = *stft;
    const auto frames = known_frames(graph, graph.node(id));
    if (!frames || !context.may_change()) return false;
    context.report_removal(graph, id);
    lower_stft(graph, id, op, *frames);
    return true;
  }
  return false;
}

}  // namespace

bool lower_transforms(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order())) changed |= lower(graph, context, id);
  return changed;
}

}  // namespace lathe
