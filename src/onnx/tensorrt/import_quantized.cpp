// SPDX-License-Identifier: Apache-2.0
//
// What NVIDIA's Model Optimizer writes where ONNX had no type for it yet: TRT_FP8QuantizeLinear,
// TRT_INT4QuantizeLinear, TRT_MXFP8QuantizeLinear, the three that dequantize, the dynamic ones of MXFP8 and
// FP4, and QuantizeLinear and DequantizeLinear of domain trt. They become ONNX's own, so that passes see one
// form of quantization. Formats: OCP Microscaling Formats 1.0 (MXFP8: blocks of 32, each with a power of two)
// and NVFP4 (blocks of 16, each with an E4M3 scale, times one of the tensor).
#include <limits>

#include "onnx/importers.h"
#include "onnx/tensorrt/importers.h"

namespace lathe::onnx {
namespace {

using C = PointwiseCode;

constexpr double kLargestE4M3 = 448, kLargestE2M1 = 6;

// Exporters without the type store its bits as bytes.
ValueId as_type(NodeImport& node, ValueId v, DType type, std::string_view suffix) {
  const DType stored = node.dtype_of(v);
  if (stored == type) return v;
  if (stored == DType::UInt8 || stored == DType::Int8) return node.add(BitCast{.to = type}, {v}, suffix);
  node.fail("its " + std::string(suffix) + " are " + std::string(dtype_name(stored)) + ", expected " +
            std::string(dtype_name(type)) + " or its bits as uint8");
}

// Scales that may be divided by: no zeros, and no denormals, which some devices take for zeros.
ValueId divisors(NodeImport& node, ValueId scales, std::string_view suffix) {
  const double least = std::numeric_limits<float>::min();
  return node.pointwise(C::Max, {scales, node.scalar(least, DType::Float32)}, suffix);
}

// A power of two (E8M0) as a number.
ValueId power_of_two(NodeImport& node, ValueId scale) {
  if (is_float(node.dtype_of(scale)) && node.dtype_of(scale) != DType::Float8E8M0) return scale;
  const ValueId number =
      node.cast(as_type(node, scale, DType::Float8E8M0, "scales"), DType::Float32, "scale");
  return divisors(node, number, "normal_scale");
}

QuantizeLinear quantize_op(const NodeImport& node, DType to, int64_t axis, int64_t block) {
  return {.axis = node.integer("axis", axis), .block_size = node.integer("block_size", block), .to = to};
}

template <DType kTo>
Values import_quantize_to(NodeImport& node) {
  return {node.add(quantize_op(node, kTo, 1, 0), {node.in(0), node.in(1)})};
}

Values dequantize(NodeImport& node, ValueId x, ValueId scale, int64_t axis, int64_t block) {
  const DequantizeLinear op{.axis = node.integer("axis", axis),
                            .block_size = node.integer("block_size", block),
                            .to = node.element_type("output_dtype", node.dtype_of(scale))};
  return {node.add(op, {x, scale})};
}

Values import_fp8_dequantize(NodeImport& node) {
  return dequantize(node, as_type(node, node.in(0), DType::Float8E4M3FN, "numbers"), node.in(1), 1, 0);
}

Values import_int4_dequantize(NodeImport& node) {  // INT8 holds one number a byte
  return dequantize(node, node.in(0), node.in(1), 1, 0);
}

Values import_mxfp8_quantize(NodeImport& node) {
  return {
      node.add(quantize_op(node, DType::Float8E4M3FN, -1, 32), {node.in(0), power_of_two(node, node.in(1))})};
}

Values import_mxfp8_dequantize(NodeImport& node) {
  return dequantize(node, as_type(node, node.in(0), DType::Float8E4M3FN, "numbers"),
                    power_of_two(node, node.in(1)), -1, 32);
}

// The largest magnitude of each block along the axis: the input's shape with the number of blocks there.
ValueId largest_of_blocks(NodeImport& node, const QuantizeLinear& op) {
  if (op.block_size < 1) node.fail("block_size is " + std::to_string(op.block_size) + ", expected 1 or more");
  Shape shape = node.shape(0);
  const auto axis = static_cast<size_t>(normalize_axis(op.axis, node.rank(0), "axis"));
  if (!shape[axis].is_constant())
    throw_unsupported("the dim that is quantised by blocks depends on an input; it must be constant");
  const int64_t extent = shape[axis].value();
  if (extent % op.block_size != 0)
    node.fail("blocks of " + std::to_string(op.block_size) + " do not divide the " + std::to_string(extent) +
              " elements of axis " + std::to_string(axis));
  shape[axis] = extent / op.block_size;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, op.block_size);
  const ValueId x = node.cast(node.in(0), DType::Float32, "x");
  const ValueId blocks = node.pointwise(C::Abs, {node.reshape(x, shape, "blocks")}, "magnitudes");
  return node.reduce(ReduceKind::Max, blocks, {static_cast<int64_t>(axis) + 1}, false, "largest");
}

// The scale is the least power of two with which no element of the block is cut.
Values import_mxfp8_dynamic(NodeImport& node) {
  const QuantizeLinear op = quantize_op(node, DType::Float8E4M3FN, -1, 32);
  const ValueId largest = largest_of_blocks(node, op);
  const ValueId needed =
      node.pointwise(C::Div, {largest, node.scalar(kLargestE4M3, DType::Float32)}, "needed_scale");
  const ValueId scale = node.add(Cast{.to = DType::Float8E8M0, .round = E8M0Rounding::Up}, {needed}, "scale");
  return {node.add(op, {node.in(0), power_of_two(node, scale)}), scale};
}

struct Fp4 {
  ValueId numbers, scales, whole_scales;  // the last in units of one
};

// `scale` is the tensor's; a block's own is in units of it.
Fp4 fp4(NodeImport& node, const QuantizeLinear& op, ValueId largest, ValueId scale) {
  const ValueId needed =
      node.pointwise(C::Div, {largest, node.scalar(kLargestE2M1, DType::Float32)}, "needed_scale");
  const ValueId scales = node.add(QuantizeLinear{.to = DType::Float8E4M3FN}, {needed, scale}, "scales");
  const ValueId whole = node.add(DequantizeLinear{.to = DType::Float32}, {scales, scale}, "whole_scales");
  return {node.add(op, {node.in(0), divisors(node, whole, "normal_scales")}), scales, whole};
}

Values import_fp4_dynamic(NodeImport& node) {
  const QuantizeLinear op = quantize_op(node, DType::Float4E2M1, -1, 16);
  const Fp4 made = fp4(node, op, largest_of_blocks(node, op), node.cast(node.in(1), DType::Float32, "scale"));
  return {made.numbers, made.scales};
}

// There and back, with the scale of the tensor that its largest magnitude asks for.
Values import_fp4_there_and_back(NodeImport& node) {
  const QuantizeLinear op = quantize_op(node, DType::Float4E2M1, -1, 16);
  const ValueId largest = largest_of_blocks(node, op);
  Ints axes;
  for (int64_t i = 0; i < node.rank(0); ++i) axes.push_back(i);
  const ValueId most = node.reduce(ReduceKind::Max, largest, axes, false, "largest_of_all");
  const ValueId needed = node.pointwise(
      C::Div, {most, node.scalar(kLargestE2M1 * kLargestE4M3, DType::Float32)}, "needed_tensor_scale");
  const Fp4 made = fp4(node, op, largest, divisors(node, needed, "tensor_scale"));
  return {node.add(DequantizeLinear{.axis = op.axis, .block_size = op.block_size, .to = node.dtype(0)},
                   {made.numbers, made.whole_scales}, "back")};
}

Values import_onnx_quantize(NodeImport& node) {
  return import_as(node, "QuantizeLinear", kLatestOpset, node.inputs());
}
Values import_onnx_dequantize(NodeImport& node) {
  return import_as(node, "DequantizeLinear", kLatestOpset, node.inputs());
}

}  // namespace

std::vector<Importer> tensorrt_quantized_importers() {
  const std::string_view domain = kTensorRtDomain;
  return {{"TRT_FP8QuantizeLinear", 1, kLatestOpset, import_quantize_to<DType::Float8E4M3FN>, domain},
          {"TRT_FP8DequantizeLinear", 1, kLatestOpset, import_fp8_dequantize, domain},
          {"TRT_INT4QuantizeLinear", 1, kLatestOpset, import_quantize_to<DType::Int4>, domain},
          {"TRT_INT4DequantizeLinear", 1, kLatestOpset, import_int4_dequantize, domain},
          {"TRT_MXFP8QuantizeLinear", 1, kLatestOpset, import_mxfp8_quantize, domain},
          {"TRT_MXFP8DequantizeLinear", 1, kLatestOpset, import_mxfp8_dequantize, domain},
          {"TRT_MXFP8DynamicQuantize", 1, kLatestOpset, import_mxfp8_dynamic, domain},
          {"TRT_FP4DynamicQuantize", 1, kLatestOpset, import_fp4_dynamic, domain},
          {"TRT_FP4QDQ", 1, kLatestOpset, import_fp4_there_and_back, domain},
          {"QuantizeLinear", 1, kLatestOpset, import_onnx_quantize, "trt"},
          {"DequantizeLinear", 1, kLatestOpset, import_onnx_dequantize, "trt"}};
}

}  // namespace lathe::onnx
