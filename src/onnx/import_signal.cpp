// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms, window functions and MelWeightMatrix. Windows are written out: sums of cosines over their length.
//
// A transform of a known, moderate length is a linear map, and its matrix is the transform of the unit vectors: a DFT becomes a matrix
// product, an STFT a convolution whose stride is the step. Both have kernels everywhere, and beat a fast transform of that length.
#include <numbers>
#include <numeric>

#include "onnx/importers.h"
#include "onnx/signal.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

constexpr int64_t kLongestMatrix = 1024;  // points: 4 MiB of a one-sided transform of reals

// What `op` makes of each unit vector of `points` real or complex points, times its element of the window: a tensor
// (points * parts, points of the result, parts of the result).
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

// One element of an integer input; nothing when it is absent or only a run knows it.
std::optional<int64_t> known_number(const NodeImport& node, size_t input) {
  const auto known = node.known_ints(input);
  if (!known || known->size() != 1) return std::nullopt;
  return known->front();
}

// x, transformed along its second last dim, as a product with the matrix of the transform.
ValueId dft_by_matrix(NodeImport& node, const DFT& op, ValueId x, std::optional<int64_t> length) {
  Shape shape = node.shape_of(x);
  const size_t at = shape.size() - 2;
  const int64_t points = shape[at].value(), parts = shape.back().value();
  const Tensor matrix = transformed_units(op, node.dtype(0), points, parts, length, {});
  const Extents to = matrix.extents();
  const ValueId weights = node.constant(matrix.reshaped({points * parts, to[1] * to[2]}), "matrix");
  Shape flat(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(at));
  flat.push_back(points * parts);
  const ValueId y = node.add(MatMul{}, {node.reshape(x, flat, "points"), weights}, "product");
  shape[at] = to[1];
  shape.back() = to[2];
  return node.reshape(y, shape, "pairs");
}

bool is_moderate(const Dim& points) {
  return points.is_constant() && points.value() >= 1 && points.value() <= kLongestMatrix;
}

// The axis of a transform that becomes a product: lengths and axis are known, and what is wrong is left to the operator.
std::optional<int64_t> matrix_axis(const NodeImport& node, std::optional<int64_t> axis) {
  const int64_t rank = node.rank(0);
  const auto length = known_number(node, 1);
  if (!axis || *axis < -rank || *axis >= rank - 1 || *axis == -1 || (node.has(1) && !length))
    return std::nullopt;
  const int64_t at = *axis < 0 ? *axis + rank : *axis;
  const Shape shape = node.shape(0);
  const bool has_pairs = shape.back().is_constant(1) || shape.back().is_constant(2);
  if (!has_pairs || !is_moderate(shape[static_cast<size_t>(at)]) || (length && !is_moderate(*length)))
    return std::nullopt;
  return at;
}

// Until opset 19 the axis is an attribute.
Values import_dft(NodeImport& node) {
  const DFT op{.inverse = node.integer("inverse", 0) != 0, .onesided = node.integer("onesided", 0) != 0};
  std::optional<int64_t> axis = -2;
  if (node.opset() < 20) axis = node.integer("axis", 1);
  if (node.opset() >= 20 && node.has(2)) axis = known_number(node, 2);
  const auto at = matrix_axis(node, axis);
  if (!at) {
    const ValueId axis_input = axis ? node.constant(Tensor::scalar_i64(*axis), "axis") : node.in(2);
    return {node.add(op, {node.in(0), node.in_or_none(1), axis_input})};
  }
  const int64_t back = node.rank(0) - 2;
  Ints swap(static_cast<size_t>(node.rank(0)));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[static_cast<size_t>(*at)], swap[static_cast<size_t>(back)]);
  const bool moves = *at != back;
  const ValueId x = moves ? node.transpose(node.in(0), swap, "axis_to_back") : node.in(0);
  const ValueId y = dft_by_matrix(node, op, x, known_number(node, 1));
  return {moves ? node.transpose(y, swap, "axis_back") : y};
}

}  // namespace

ValueId fourier_transform(NodeImport& node, const DFT& op, ValueId x) {
  const Shape s = node.shape_of(x);
  const ValueId axis = node.constant(Tensor::scalar_i64(-2), "axis");
  if (!is_moderate(s[s.size() - 2]) || !s.back().is_constant()) return node.add(op, {x, kNoValue, axis});
  return dft_by_matrix(node, op, x, std::nullopt);
}

namespace {

// Points of a frame; nothing when only a run knows them.
std::optional<int64_t> frame_points(const NodeImport& node) {
  const auto constant = [](const Dim& dim) {
    return dim.is_constant() ? std::optional(dim.value()) : std::nullopt;
  };
  if (node.has(2)) return node.rank(2) == 1 ? constant(node.shape(2)[0]) : std::nullopt;
  if (node.has(3)) return known_number(node, 3);
  return node.rank(0) == 3 ? constant(node.shape(0)[1]) : std::nullopt;
}

// Filters: the transforms of the unit vectors of a frame; one pair of filters per bin.
ValueId stft_by_convolution(NodeImport& node, bool onesided, int64_t points, int64_t step) {
  const int64_t parts = node.shape(0)[2].value();
  const Tensor matrix = transformed_units(DFT{.onesided = onesided}, node.dtype(0), points, parts,
                                          std::nullopt, node.constant(2));
  const int64_t bins = matrix.extents()[1];
  const ValueId columns = node.constant(matrix.reshaped({points, parts, bins * 2}), "filter_columns");
  const ValueId filters = node.transpose(columns, {2, 1, 0}, "filters");
  const ValueId signal = node.transpose(node.in(0), {0, 2, 1}, "signal");
  const Conv op{.kernel = {points}, .strides = {step}, .dilations = {1}, .pads_begin = {0}, .pads_end = {0}};
  const ValueId rows = node.transpose(node.add(op, {signal, filters}, "frames"), {0, 2, 1}, "rows");
  const Shape shape = node.shape_of(rows);
  return node.reshape(rows, {shape[0], shape[1], bins, 2}, "pairs");
}

Values import_stft(NodeImport& node) {
  const STFT op{.onesided = node.integer("onesided", 1) != 0};
  // Checks all inputs, and is dead when the convolution takes its place.
  const ValueId layer = node.add(op, {node.in(0), node.in(1), node.in_or_none(2), node.in_or_none(3)});
  const auto points = frame_points(node), step = known_number(node, 1);
  const bool known_window = !node.has(2) || node.constant(2);
  if (!points || !step || !known_window || !is_moderate(*points) || !node.shape(0)[2].is_constant())
    return {layer};
  return {stft_by_convolution(node, op.onesided, *points, *step)};
}

Values import_mel(NodeImport& node) {
  return {node.add(MelWeightMatrix{.dtype = node.element_type("output_datatype", DType::Float32)},
                   {node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)})};
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), in double; n is the size, and one less when the window is symmetric.
Values add_window(NodeImport& node, double a0, double a1, double a2) {
  const ValueId size = node.reshape(node.cast(node.in(0), DType::Int64, "size"), {}, "length");
  const ValueId zero = node.scalar(0, DType::Int64), one = node.scalar(1, DType::Int64);
  const ValueId index = node.cast(node.add(Range{}, {zero, size, one}, "index"), DType::Float64, "position");
  const auto binary = [&](C code, ValueId a, ValueId b, std::string_view name) {
    return node.pointwise(code, {a, b}, 0, 0, name);
  };
  const auto number = [&](double value) { return node.scalar(value, DType::Float64); };
  ValueId period = node.cast(size, DType::Float64, "period");
  if (node.integer("periodic", 1) == 0)
    period = binary(C::Max, binary(C::Sub, period, number(1), "intervals"), number(1), "symmetric_period");
  const ValueId turn = binary(C::Div, index, period, "turn");
  const auto cosine = [&](double turns, const std::string& name) {
    const ValueId angle = binary(C::Mul, turn, number(2 * std::numbers::pi * turns), name + "_angle");
    return node.pointwise(C::Cos, {angle}, 0, 0, name);
  };
  ValueId y = binary(C::Sub, number(a0), binary(C::Mul, cosine(1, "first"), number(a1), "first_part"), "sum");
  if (a2 != 0)
    y = binary(C::Add, y, binary(C::Mul, cosine(2, "second"), number(a2), "second_part"), "window");
  return {node.cast(y, node.element_type("output_datatype", DType::Float32), "")};
}

Values import_hann(NodeImport& node) {
  return add_window(node, 0.5, 0.5, 0);
}
Values import_hamming(NodeImport& node) {
  return add_window(node, 25.0 / 46, 21.0 / 46, 0);
}
Values import_blackman(NodeImport& node) {
  return add_window(node, 0.42, 0.5, 0.08);
}

}  // namespace

std::vector<Importer> signal_importers() {
  return {
      {"BlackmanWindow", 17, kLatestOpset, import_blackman}, {"DFT", 17, kLatestOpset, import_dft},
      {"HammingWindow", 17, kLatestOpset, import_hamming},   {"HannWindow", 17, kLatestOpset, import_hann},
      {"MelWeightMatrix", 17, kLatestOpset, import_mel},     {"STFT", 17, kLatestOpset, import_stft}};
}

}  // namespace lathe::onnx
