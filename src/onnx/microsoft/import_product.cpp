// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: convolutions and products with transpositions, a factor, a summand and an activation;
// channels last.
#include <numeric>

#include "onnx/conv.h"
#include "onnx/importers.h"
#include "onnx/microsoft/activation.h"
#include "onnx/microsoft/layout.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// inputs: x, w, [bias], [summand]
Values import_fused_conv(NodeImport& node) {
  ValueId y = import_as(node, "Conv", 11, {node.in(0), node.in(1), node.in_or_none(2)})[0];
  y = add_optional(node, y, node.in_or_none(3), "sum");
  return {apply_activation(node, y, node.text("activation", ""),
                           node.reals("activation_params").value_or(std::vector<float>()))};
}

// FusedConv of tensors with their channels at the end; w as in Conv.
Values import_nhwc_conv(NodeImport& node) {
  const int64_t rank = node.rank(0);
  if (rank < 3) node.fail("its input needs at least three dimensions");
  const auto first = [&](size_t i, std::string_view name) {
    return node.has(i) ? node.transpose(node.in(i), channels_first(rank), name) : kNoValue;
  };
  NodeImport inner = node.with(1, {first(0, "x"), node.in(1), node.in_or_none(2), first(3, "summand")});
  return {node.transpose(import_fused_conv(inner)[0], channels_last(rank), "channels_last")};
}

// inputs: x, w, [pads: at the beginning of each axis, then at its end], [bias]. Pads that only a run knows
// are cut off from the whole result.
Values import_conv_transpose_with_pads(NodeImport& node) {
  const size_t dims = spatial_dims(node);
  const ValueId bias = node.in_or_none(3);
  Window window = read_window(node, dims);
  if (!node.has(2) || window.auto_pad != AutoPad::NotSet) return {conv_transpose(node, window, bias)};
  const auto count = static_cast<int64_t>(dims);
  if (node.dtype(2) != DType::Int64 || node.rank(2) != 1 || !(node.shape(2)[0] == Dim(2 * count)))
    node.fail("its pads need two entries of int64 per spatial dimension");
  if (const auto pads = node.known_ints(2)) {
    for (const int64_t pad : *pads)
      if (pad < 0 || pad > (int64_t{1} << 31)) node.fail("pads has the entry " + std::to_string(pad));
    window.pads_begin.assign(pads->begin(), pads->begin() + count);
    window.pads_end.assign(pads->begin() + count, pads->end());
    return {conv_transpose(node, window, bias)};
  }
  const ValueId whole = conv_transpose(node, window, bias);
  const Shape s = node.shape_of(whole);
  const Shape space(s.begin() + 2, s.end());
  Ints axes(dims);
  std::iota(axes.begin(), axes.end(), 2);
  const ValueId start = node.slice(node.in(2), 0, 0, count, "pads_begin");
  const ValueId end = node.pointwise(C::Sub,
                                     {node.add(ShapeTensor{.dims = space}, {}, "space"),
                                      node.slice(node.in(2), 0, count, 2 * count, "pads_end")},
                                     "end");
  return {node.add(Slice{}, {whole, start, end, node.ints_constant(axes)}, "cut")};
}

std::vector<float> activation_parameters(const NodeImport& node) {
  std::vector<float> parameters;
  for (const std::string_view name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (!node.has_attribute(name)) break;
    parameters.push_back(node.real(name, 0));
  }
  return parameters;
}

Values import_fused_gemm(NodeImport& node) {
  const ValueId y = import_as(node, "Gemm", 13, node.inputs())[0];
  return {apply_activation(node, y, node.text("activation", ""), activation_parameters(node))};
}

// The first axis moves behind the axes of the batch: (m, b..., k) to (b..., m, k).
ValueId batch_first(NodeImport& node, size_t i, std::string_view attribute) {
  const int64_t rank = node.rank(i);
  if (node.integer(attribute, 0) == 0 || rank < 3) return node.in(i);
  Ints perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 1);
  perm[static_cast<size_t>(rank) - 2] = 0;
  perm.back() = rank - 1;
  return node.transpose(node.in(i), perm, attribute);
}

Values import_fused_matmul(NodeImport& node) {
  const auto transposed = [&](size_t i, std::string_view attribute) {
    return node.rank(i) > 1 && node.integer(attribute, 0) != 0;
  };
  const MatMul op{.transpose_a = transposed(0, "transA"), .transpose_b = transposed(1, "transB")};
  const ValueId y = node.add(op, {batch_first(node, 0, "transBatchA"), batch_first(node, 1, "transBatchB")});
  const float alpha = node.real("alpha", 1);
  if (alpha == 1) return {y};
  return {node.pointwise(C::Mul, {y, node.scalar(alpha, node.dtype_of(y))}, "alpha")};
}

Values import_fused_matmul_activation(NodeImport& node) {
  const ValueId y = import_fused_matmul(node)[0];
  const std::string activation = node.text("activation", "");
  if (activation == "Softmax")
    return {node.add(Softmax{.axis = node.integer("activation_axis", -1)}, {y}, "softmax")};
  return {apply_activation(node, y, activation, activation_parameters(node))};
}

// x w, plus a bias, through the Gelu that tanh approximates.
Values import_gemm_fast_gelu(NodeImport& node) {
  const ValueId y = node.add(MatMul{}, {node.in(0), node.in(1)});
  return {node.pointwise(C::GeluTanh, {add_optional(node, y, node.in_or_none(2), "bias")}, "gelu")};
}

}  // namespace

Ints channels_first(int64_t rank) {
  Ints perm(static_cast<size_t>(rank));
  std::iota(perm.begin() + 1, perm.end(), 0);
  perm[0] = 0;
  perm[1] = rank - 1;
  return perm;
}

Ints channels_last(int64_t rank) {
  Ints perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 1);
  perm[0] = 0;
  perm.back() = 1;
  return perm;
}

std::vector<Importer> microsoft_product_importers() {
  return {
      {"ConvTransposeWithDynamicPads", 1, kLatestOpset, import_conv_transpose_with_pads, kMicrosoftDomain},
      {"FusedConv", 1, kLatestOpset, import_fused_conv, kMicrosoftDomain},
      {"FusedGemm", 1, kLatestOpset, import_fused_gemm, kMicrosoftDomain},
      {"FusedMatMul", 1, kLatestOpset, import_fused_matmul, kMicrosoftDomain},
      {"FusedMatMulActivation", 1, kLatestOpset, import_fused_matmul_activation, kMicrosoftDomain},
      {"GemmFastGelu", 1, kLatestOpset, import_gemm_fast_gelu, kMicrosoftDomain},
      {"NhwcConv", 1, kLatestOpset, import_nhwc_conv, kMicrosoftDomain},
      {"NhwcFusedConv", 1, kLatestOpset, import_nhwc_conv, kMicrosoftDomain},
      {"TransposeMatMul", 1, kLatestOpset, import_fused_matmul, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
