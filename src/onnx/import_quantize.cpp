// SPDX-License-Identifier: Apache-2.0
//
// QuantizeLinear and DequantizeLinear as they are; the integer operators (MatMulInteger, ConvInteger,
// QLinearMatMul, QLinearConv) written out with them, so that passes see one form of quantization.
#include <cmath>
#include <numeric>

#include "onnx/importers.h"
#include "onnx/quantized.h"
#include "onnx/window.h"

namespace lathe::onnx {

namespace {

DType quantized_type(const NodeImport& node) {
  if (node.has(2)) return node.dtype(2);
  return node.element_type("output_dtype", DType::UInt8);
}

// x, scale and, when it is there, the zero point.
std::vector<ValueId> operands(NodeImport& node) {
  std::vector<ValueId> all = {node.in(0), node.in(1)};
  if (node.has(2)) all.push_back(node.in(2));
  return all;
}

// A scale that is known must make sense. Zeros of what is dequantised are blocks of zeros.
void check_scale(NodeImport& node, bool may_be_zero) {
  const Tensor scale = node.constant(1);
  if (!scale || !scale.has_bytes() || !is_float(scale.dtype())) return;
  for (const double value : scale.to_doubles())
    if (!std::isfinite(value) || (value == 0 && !may_be_zero))
      node.fail(std::string("its scale (input 1) has an element that is ") +
                (value == 0 ? "0" : std::isnan(value) ? "NaN" : "infinite") +
                "; a scale is a positive number: quantise the model again");
}

Values import_quantize(NodeImport& node) {
  check_scale(node, false);
  const QuantizeLinear op{.axis = node.integer("axis", 1),
                          .block_size = node.integer("block_size", 0),
                          .to = quantized_type(node),
                          .saturate = node.integer("saturate", 1) != 0};
  return {node.add(op, operands(node))};
}

Values import_dequantize(NodeImport& node) {
  check_scale(node, true);
  const DequantizeLinear op{.axis = node.integer("axis", 1),
                            .block_size = node.integer("block_size", 0),
                            .to = node.element_type("output_dtype", node.dtype(1))};
  return {node.add(op, operands(node))};
}

}  // namespace

// scale = (max - min) / 255 with 0 in the range; zero point = round(-min / scale), clipped.
Values dynamically_quantized(NodeImport& node, ValueId x) {
  using C = PointwiseCode;
  const ValueId zero = node.scalar(0, DType::Float32);
  Ints all(node.shape_of(x).size());
  std::iota(all.begin(), all.end(), 0);
  const ValueId low =
      node.pointwise(C::Min, {node.reduce(ReduceKind::Min, x, all, false, "x_min"), zero}, 0, 0, "min");
  const ValueId high =
      node.pointwise(C::Max, {node.reduce(ReduceKind::Max, x, all, false, "x_max"), zero}, 0, 0, "max");
  const ValueId range = node.pointwise(C::Sub, {high, low}, 0, 0, "range");
  const ValueId scale = node.pointwise(C::Div, {range, node.scalar(255, DType::Float32)}, 0, 0, "scale");
  const ValueId shift =
      node.pointwise(C::Div, {node.pointwise(C::Neg, {low}, 0, 0, "minus_min"), scale}, 0, 0, "shift");
  const ValueId clipped =
      node.pointwise(C::Clip, {node.pointwise(C::Round, {shift}, 0, 0, "round")}, 0, 255, "clip");
  const ValueId zero_point = node.cast(clipped, DType::UInt8, "zero_point");
  return {node.add(QuantizeLinear{.to = DType::UInt8}, {x, scale, zero_point}), scale, zero_point};
}

ValueId dequantized(NodeImport& node, ValueId x, ValueId scale, ValueId zero, const std::string& name,
                    int64_t axis) {
  Values operands = {x, node.cast(scale, DType::Float32, name + "_scale")};
  if (zero != kNoValue) operands.push_back(zero);
  return node.add(DequantizeLinear{.axis = axis, .to = DType::Float32}, operands, name);
}

namespace {

Values import_dynamic_quantize(NodeImport& node) {
  return dynamically_quantized(node, node.in(0));
}

// Sums of products of 8-bit integers are exact in float32 up to this many terms (255 * 255 * 258 < 2^24),
// else in float64.
constexpr int64_t kExactTerms = 258;

DType exact_type(const Dim& terms) {
  return terms.is_constant() && terms.value() <= kExactTerms ? DType::Float32 : DType::Float64;
}

// x - zero point, as numbers of `dtype`. A zero point per row of a matrix is a column.
ValueId centred(NodeImport& node, size_t x, size_t zero_point, DType dtype, int64_t axis,
                const std::string& name) {
  const ValueId v = node.cast(node.in(x), dtype, name);
  if (!node.has(zero_point)) return v;
  ValueId z = node.cast(node.in(zero_point), dtype, name + "_zero_point");
  if (node.shape_of(z).size() == 1 && !node.shape_of(z)[0].is_constant(1)) {
    Shape shape(static_cast<size_t>(node.rank(x)), Dim(1));
    shape[static_cast<size_t>(normalize_axis(axis, node.rank(x), "axis"))] = node.shape_of(z)[0];
    z = node.reshape(z, shape, name + "_zero_points");
  }
  return node.pointwise(PointwiseCode::Sub, {v, z}, 0, 0, name + "_centred");
}

Values import_matmul_integer(NodeImport& node) {
  if (node.rank(0) < 1 || node.rank(1) < 1) node.fail("its operands must have a dim at least");
  const DType dtype = exact_type(node.shape(0).back());
  const ValueId a = centred(node, 0, 2, dtype, -2, "a"), b = centred(node, 1, 3, dtype, -1, "b");
  return {node.cast(node.add(MatMul{}, {a, b}), DType::Int32, "result")};
}

Conv read_conv(NodeImport& node, size_t weight) {
  const size_t dims = spatial_dims(node);
  const Window w = read_window(node, dims);
  Conv op{.strides = w.strides,
          .dilations = w.dilations,
          .pads_begin = w.pads_begin,
          .pads_end = w.pads_end,
          .groups = node.integer("group", 1),
          .auto_pad = w.auto_pad};
  if (node.rank(weight) != static_cast<int64_t>(dims) + 2)
    node.fail("input and weight must have the same number of dimensions");
  for (size_t i = 0; i < dims; ++i) {
    if (!node.shape(weight)[i + 2].is_constant())
      throw_unsupported("its kernel size depends on an input; it must be constant");
    op.kernel.push_back(node.shape(weight)[i + 2].value());
  }
  return op;
}

Values import_conv_integer(NodeImport& node) {
  const Conv op = read_conv(node, 1);
  Dim terms = node.shape(1)[1];
  for (const int64_t k : op.kernel) terms = terms * k;
  const DType dtype = exact_type(terms);
  const ValueId y = node.add(op, {centred(node, 0, 2, dtype, 1, "x"), centred(node, 1, 3, dtype, 0, "w")});
  return {node.cast(y, DType::Int32, "result")};
}

// A tensor, its scale and its zero point.
ValueId numbers_at(NodeImport& node, size_t x, int64_t axis, const std::string& name) {
  return dequantized(node, node.in(x), node.in(x + 1), node.in(x + 2), name, axis);
}

ValueId quantized(NodeImport& node, ValueId y, size_t scale) {
  const QuantizeLinear op{.axis = 1, .to = node.dtype(scale + 1)};
  return node.add(op, {y, node.cast(node.in(scale), DType::Float32, "y_scale"), node.in(scale + 1)},
                  "quantize");
}

// inputs: a, scale, zero point, b, scale, zero point, scale and zero point of y
Values import_qlinear_matmul(NodeImport& node) {
  const ValueId a = numbers_at(node, 0, node.rank(0) - 2, "a"),
                b = numbers_at(node, 3, node.rank(3) - 1, "b");
  return {quantized(node, node.add(MatMul{}, {a, b}), 6)};
}

// inputs: x, scale, zero point, w, scale, zero point, scale and zero point of y, [bias in units of x's scale
// times w's]
Values import_qlinear_conv(NodeImport& node) {
  const Conv op = read_conv(node, 3);
  const ValueId x = numbers_at(node, 0, 1, "x"), w = numbers_at(node, 3, 0, "w");
  ValueId bias = kNoValue;
  if (node.has(8)) {
    const ValueId unit = node.pointwise(PointwiseCode::Mul, {node.in(1), node.in(4)}, 0, 0, "bias_scale");
    bias = node.pointwise(PointwiseCode::Mul, {node.cast(node.in(8), DType::Float32, "bias"), unit}, 0, 0,
                          "bias_value");
  }
  return {quantized(node, node.add(op, {x, w, bias}), 6)};
}

}  // namespace

std::vector<Importer> quantize_importers() {
  return {{"ConvInteger", 10, kLatestOpset, import_conv_integer},
          {"DequantizeLinear", 10, kLatestOpset, import_dequantize},
          {"DynamicQuantizeLinear", 11, kLatestOpset, import_dynamic_quantize},
          {"MatMulInteger", 10, kLatestOpset, import_matmul_integer},
          {"QLinearConv", 10, kLatestOpset, import_qlinear_conv},
          {"QLinearMatMul", 10, kLatestOpset, import_qlinear_matmul},
          {"QuantizeLinear", 10, kLatestOpset, import_quantize}};
}

}  // namespace lathe::onnx
