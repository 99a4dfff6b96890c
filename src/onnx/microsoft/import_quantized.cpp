// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: operators on quantised tensors, as ONNX Runtime's quantiser writes them, written out as
// DequantizeLinear, the float operator and QuantizeLinear, so that passes see one form of quantisation.

#include "onnx/importers.h"
#include "onnx/microsoft/bits.h"
#include "onnx/microsoft/layout.h"
#include "onnx/quantized.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// A tensor, its scale and its zero point (which may be absent), at inputs `first` and those behind it.
ValueId numbers_at(NodeImport& node, size_t first, const std::string& name, int64_t axis = 1) {
  return dequantized(node, node.in(first), node.in(first + 1), node.in_or_none(first + 2), name, axis);
}

// By the scale at input `scale` and the zero point behind it, in the type of input `like`.
ValueId quantized(NodeImport& node, ValueId y, size_t scale, size_t like) {
  Values operands = {y, node.cast(node.in(scale), DType::Float32, "y_scale")};
  if (node.has(scale + 1)) operands.push_back(node.in(scale + 1));
  return node.add(QuantizeLinear{.to = node.dtype(like)}, operands, "quantize");
}

// inputs: a, scale, zero point, b, scale, zero point, scale and zero point of the result
template <C code>
Values import_qlinear_binary(NodeImport& node) {
  const ValueId a = numbers_at(node, 0, "a"), b = numbers_at(node, 3, "b");
  return {quantized(node, node.pointwise(code, {a, b}, "result"), 6, 0)};
}

// inputs: x, scale, zero point, scale and zero point of the result
template <class F>
Values unary(NodeImport& node, const F& function) {
  return {quantized(node, function(numbers_at(node, 0, "x")), 3, 0)};
}

Values import_qlinear_sigmoid(NodeImport& node) {
  return unary(node, [&](ValueId x) { return node.pointwise(C::Sigmoid, {x}, "sigmoid"); });
}

Values import_qlinear_leaky_relu(NodeImport& node) {
  const float alpha = node.real("alpha", 0.01f);
  return unary(node, [&](ValueId x) { return node.pointwise(C::LeakyRelu, {x}, alpha, 0, "leaky_relu"); });
}

// Before opset 13 of ONNX's Softmax, which the attribute names, all dims from the axis on are one.
Values import_qlinear_softmax(NodeImport& node) {
  return unary(node,
               [&](ValueId x) { return import_as(node, "Softmax", node.integer("opset", 13), {x})[0]; });
}

Values import_qlinear_reduce_mean(NodeImport& node) {
  return unary(node, [&](ValueId x) { return import_as(node, "ReduceMean", 13, {x})[0]; });
}

// Of an operator that means its channels at the end, where `channels_last` says so.
template <class F>
ValueId with_channels_first(NodeImport& node, ValueId x, const F& function) {
  const auto rank = static_cast<int64_t>(node.shape_of(x).size());
  if (node.integer("channels_last", 0) == 0) return function(x);
  if (rank < 3) node.fail("its input needs at least three dimensions");
  const ValueId first = node.transpose(x, channels_first(rank), "channels_first");
  return node.transpose(function(first), channels_last(rank), "channels_last");
}

Values import_qlinear_average_pool(NodeImport& node) {
  return unary(node, [&](ValueId x) {
    return with_channels_first(node, x,
                               [&](ValueId v) { return import_as(node, "AveragePool", 11, {v})[0]; });
  });
}

Values import_qlinear_global_average_pool(NodeImport& node) {
  return unary(node, [&](ValueId x) {
    return with_channels_first(node, x,
                               [&](ValueId v) { return import_as(node, "GlobalAveragePool", 1, {v})[0]; });
  });
}

// inputs: scale and zero point of the result, then x, scale and zero point of each part
Values import_qlinear_concat(NodeImport& node) {
  if (node.input_count() < 5 || (node.input_count() - 2) % 3 != 0)
    node.fail("it has " + std::to_string(node.input_count()) +
              " inputs; it takes two, and three for each tensor to join");
  Values parts;
  for (size_t i = 2; i < node.input_count(); i += 3)
    parts.push_back(numbers_at(node, i, "x" + std::to_string(i / 3)));
  const int64_t axis =
      normalize_axis(node.required_integer("axis"), static_cast<int64_t>(node.shape(2).size()), "axis");
  return {quantized(node, node.add(Concat{.axis = axis}, parts, "concat"), 0, 2)};
}

// inputs: condition, x, scale, zero point, y, scale, zero point, scale and zero point of the result
Values import_qlinear_where(NodeImport& node) {
  const ValueId x = numbers_at(node, 1, "x"), y = numbers_at(node, 4, "y");
  return {quantized(node, node.pointwise(C::Where, {node.in(0), x, y}, "where"), 7, 1)};
}

// inputs: a, scale, zero point, b, scale, zero point, [c in units of both scales], [scale and zero point of
// the result: without them it is float]
Values import_qgemm(NodeImport& node) {
  const bool transposed = node.integer("transB", 0) != 0;
  const ValueId a = numbers_at(node, 0, "a"), b = numbers_at(node, 3, "b", transposed ? 0 : 1);
  ValueId y = node.add(MatMul{.transpose_a = node.integer("transA", 0) != 0, .transpose_b = transposed},
                       {a, b}, "product");
  const float alpha = node.real("alpha", 1);
  if (alpha != 1) y = node.pointwise(C::Mul, {y, node.scalar(alpha, DType::Float32)}, "alpha");
  if (node.has(6)) {
    ValueId unit = node.pointwise(C::Mul, {node.in(1), node.in(4)}, "c_scale");
    if (alpha != 1) unit = node.pointwise(C::Mul, {unit, node.scalar(alpha, DType::Float32)}, "c_alpha");
    const ValueId c = node.pointwise(C::Mul, {node.cast(node.in(6), DType::Float32, "c"), unit}, "c_value");
    y = node.pointwise(C::Add, {y, c}, "sum");
  }
  return {node.has(7) ? quantized(node, y, 7, 0) : y};
}

// The columns of the weights have a scale each, or share one.
ValueId product_of(NodeImport& node, ValueId a, size_t b, size_t scale, size_t zero, size_t bias) {
  const ValueId w =
      dequantized(node, node.in(b), node.in(scale), node.in_or_none(zero), "b", node.rank(b) - 1);
  const ValueId y = node.add(MatMul{}, {a, w}, "product");
  return node.has(bias) ? node.pointwise(C::Add, {y, node.in(bias)}, "bias") : y;
}

// inputs: a, b, scales of both, [zero points of both], [bias]
Values import_matmul_to_float(NodeImport& node) {
  const ValueId a = dequantized(node, node.in(0), node.in(2), node.in_or_none(4), "a", node.rank(0) - 2);
  return {product_of(node, a, 1, 3, 5, 6)};
}

// inputs: a, b, scale of b, [zero point of b], [bias]; a is quantised by what it holds
Values import_dynamic_matmul(NodeImport& node) {
  const Values a = dynamically_quantized(node, node.in(0));
  return {product_of(node, dequantized(node, a[0], a[1], a[2], "a", 1), 1, 2, 3, 4)};
}

// Products of integers of 16 bits, summed up in 32 bits without a sign where neither operand has one.
Values import_matmul_integer16(NodeImport& node) {
  for (const size_t i : {size_t{0}, size_t{1}})
    if (node.dtype(i) != DType::Int16 && node.dtype(i) != DType::UInt16)
      node.fail("its operands are integers of 16 bits");
  const bool positive = node.dtype(0) == DType::UInt16 && node.dtype(1) == DType::UInt16;
  const DType type = positive ? DType::UInt32 : DType::Int32;
  return {node.add(MatMul{}, {node.cast(node.in(0), type, "a"), node.cast(node.in(1), type, "b")})};
}

Values import_channels_last_conv(NodeImport& node) {
  if (node.integer("channels_last", 0) == 0) return import_as(node, "QLinearConv", 10, node.inputs());
  const int64_t rank = node.rank(0);
  if (rank < 3) node.fail("its input needs at least three dimensions");
  Values inputs = node.inputs();
  inputs[0] = node.transpose(node.in(0), channels_first(rank), "channels_first");
  return {
      node.transpose(import_as(node, "QLinearConv", 10, inputs)[0], channels_last(rank), "channels_last")};
}

Values import_microsoft_quantize(NodeImport& node) {
  return import_as(node, "QuantizeLinear", 21, node.inputs());
}
Values import_microsoft_dequantize(NodeImport& node) {
  return import_as(node, "DequantizeLinear", 21, node.inputs());
}

// --- products whose weights have a few bits

// inputs: a, b (N, blocks, bytes of a block), scales (N, blocks), [zero points], [g_idx], [bias]. A block is
// so many values of a row along k, all with one scale.
Values import_matmul_bits(NodeImport& node) {
  const int64_t k = node.required_integer("K"), n = node.required_integer("N"),
                block = node.required_integer("block_size"), bits = node.integer("bits", 4);
  const DType type = type_of_bits(node, bits, "bits");
  if (k < 1 || n < 1 || block < 16) node.fail("K, N or block_size is too small");
  if (k > kMostWeights / n || block > kMostWeights / n) node.fail("K, N or block_size is too large");
  if (node.has(4)) throw_unsupported("its weights are in another order (g_idx); export without act_order");
  const int64_t blocks = (k + block - 1) / block;
  const Tensor packed = node.constant(1);
  if (!packed) throw_unsupported("its weights depend on an input; they must be constant");
  if (packed.dtype() != DType::UInt8 || packed.size() != n * blocks * block * bits / 8)
    node.fail("its weights have " + std::to_string(packed.size()) + " bytes, expected " +
              std::to_string(n * blocks * block * bits / 8) + " for N, K, block_size and bits");
  const ValueId w = node.constant(unpacked_bits(packed, type, n, k, {n, k}), "weights");
  const ValueId scale = node.reshape(node.in(2), {Dim(n), Dim(blocks)}, "scales");
  ValueId zero = node.constant(middle_of_bits(type, {n, blocks}), "middle");
  if (node.has(3)) {
    const Tensor zeros = node.constant(3);
    if (!zeros || zeros.dtype() != DType::UInt8)
      throw_unsupported("its zero points are no constants of uint8; export with packed zero points");
    if (zeros.size() != n * ((blocks * bits + 7) / 8))
      node.fail("it has " + std::to_string(zeros.size()) + " bytes of zero points, expected " +
                std::to_string(n * ((blocks * bits + 7) / 8)));
    zero = node.constant(unpacked_bits(zeros, type, n, blocks, {n, blocks}), "zeros");
  }
  const ValueId numbers = node.add(DequantizeLinear{.axis = 1, .block_size = block, .to = node.dtype(0)},
                                   {w, node.cast(scale, node.dtype(0), "scales_cast"), zero}, "dequantize");
  const ValueId y = node.add(MatMul{.transpose_b = true}, {node.in(0), numbers}, "product");
  return {node.has(5) ? node.pointwise(C::Add, {y, node.in(5)}, "bias") : y};
}

}  // namespace

std::vector<Importer> microsoft_quantized_importers() {
  return {{"DequantizeLinear", 1, kLatestOpset, import_microsoft_dequantize, kMicrosoftDomain},
          {"DynamicQuantizeMatMul", 1, kLatestOpset, import_dynamic_matmul, kMicrosoftDomain},
          {"MatMulInteger16", 1, kLatestOpset, import_matmul_integer16, kMicrosoftDomain},
          {"MatMulIntegerToFloat", 1, kLatestOpset, import_matmul_to_float, kMicrosoftDomain},
          {"MatMulNBits", 1, kLatestOpset, import_matmul_bits, kMicrosoftDomain},
          {"QGemm", 1, kLatestOpset, import_qgemm, kMicrosoftDomain},
          {"QLinearAdd", 1, kLatestOpset, import_qlinear_binary<C::Add>, kMicrosoftDomain},
          {"QLinearAveragePool", 1, kLatestOpset, import_qlinear_average_pool, kMicrosoftDomain},
          {"QLinearConcat", 1, kLatestOpset, import_qlinear_concat, kMicrosoftDomain},
          {"QLinearConv", 1, kLatestOpset, import_channels_last_conv, kMicrosoftDomain},
          {"QLinearGlobalAveragePool", 1, kLatestOpset, import_qlinear_global_average_pool, kMicrosoftDomain},
          {"QLinearLeakyRelu", 1, kLatestOpset, import_qlinear_leaky_relu, kMicrosoftDomain},
          {"QLinearMul", 1, kLatestOpset, import_qlinear_binary<C::Mul>, kMicrosoftDomain},
          {"QLinearReduceMean", 1, kLatestOpset, import_qlinear_reduce_mean, kMicrosoftDomain},
          {"QLinearSigmoid", 1, kLatestOpset, import_qlinear_sigmoid, kMicrosoftDomain},
          {"QLinearSoftmax", 1, kLatestOpset, import_qlinear_softmax, kMicrosoftDomain},
          {"QLinearWhere", 1, kLatestOpset, import_qlinear_where, kMicrosoftDomain},
          {"QuantizeLinear", 1, kLatestOpset, import_microsoft_quantize, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
