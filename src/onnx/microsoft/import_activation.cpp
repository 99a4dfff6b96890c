// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: activations, with or without a bias in front and a residual behind.
#include <limits>

#include "onnx/importers.h"
#include "onnx/microsoft/activation.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

struct Activation {
  std::string_view name;
  C code;
  float alpha = 0, beta = 0;  // ONNX's defaults
};

constexpr Activation kActivations[] = {
    {"Relu", C::Relu},
    {"Tanh", C::Tanh},
    {"Sigmoid", C::Sigmoid},
    {"LeakyRelu", C::LeakyRelu, 0.01f},
    {"HardSigmoid", C::HardSigmoid, 0.2f, 0.5f},
    {"Clip", C::Clip, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max()},
    {"Elu", C::Elu, 1},
    {"Softplus", C::Softplus},
    {"Softsign", C::Softsign},
    {"ThresholdedRelu", C::ThresholdedRelu, 1},
    {"Selu", C::Selu, 1.67326319217681884765625f, 1.05070102214813232421875f},
    {"HardSwish", C::HardSwish},
    {"Gelu", C::GeluErf},
    {"FastGelu", C::GeluTanh},
};

// The bias is the second input, a vector along the last axis.
template <C code>
Values import_with_bias(NodeImport& node) {
  return {node.pointwise(code, {add_optional(node, node.in(0), node.in_or_none(1), "bias")})};
}

Values import_quick_gelu(NodeImport& node) {
  return {node.pointwise(C::Silu, {node.in(0)}, node.real("alpha", 1.702f))};
}

// inputs: x, bias, residual
Values import_bias_add(NodeImport& node) {
  const ValueId x = node.pointwise(C::Add, {node.in(0), node.in(1)}, "bias");
  return {node.pointwise(C::Add, {x, node.in(2)})};
}

// The left half times the Gelu of the right one.
Values import_bias_split_gelu(NodeImport& node) {
  const ValueId x = node.pointwise(C::Add, {node.in(0), node.in(1)}, "bias");
  const int64_t axis = node.rank(0) - 1;
  if (axis < 0) node.fail("its input needs a dimension at least");
  const Dim width = node.shape(0).back();
  const auto half = width.exact_div(2);
  if (!half) node.fail("its last dimension, " + width.to_string() + ", has no halves");
  const ValueId left = node.slice(x, axis, 0, *half, "left"),
                right = node.slice(x, axis, *half, width, "right");
  return {node.pointwise(C::Mul, {left, node.pointwise(C::GeluErf, {right}, "gelu")})};
}

// inputs: x, bias, [residual], [ratio], [training mode]: Dropout of x + bias, plus the residual.
Values import_bias_dropout(NodeImport& node) {
  const ValueId x = node.pointwise(C::Add, {node.in(0), node.in(1)}, "bias");
  Values results = import_as(node, "Dropout", 13, {x, node.in_or_none(3), node.in_or_none(4)});
  results[0] = add_optional(node, results[0], node.in_or_none(2), "residual");
  return results;
}

// The bias spreads over the axes in front of the softmax's: over the inner ones, or over the outer ones.
Values import_bias_softmax(NodeImport& node) {
  const Shape x = node.shape(0), bias = node.shape(1);
  const int64_t axis = normalize_axis(node.integer("axis", 1), node.rank(0), "axis");
  ValueId spread = node.in(1);
  if (node.required_integer("is_inner_broadcast") != 0 && bias.size() < x.size()) {
    if (static_cast<int64_t>(bias.size()) < node.rank(0) - axis)
      node.fail("the bias has fewer dimensions than the softmax, " + std::to_string(node.rank(0) - axis));
    Shape shape = bias;
    shape.insert(shape.end() - (node.rank(0) - axis), x.size() - bias.size(), Dim(1));
    spread = node.reshape(spread, shape, "bias_axes");
  }
  const ValueId sum = node.pointwise(C::Add, {node.in(0), spread}, "bias");
  return import_as(node, "Softmax", 11, {sum});
}

// x times its scale, an input or the attribute alpha, and the sigmoid of that.
Values import_scaled_silu(NodeImport& node) {
  const ValueId scale = node.has(1) ? node.cast(node.in(1), node.dtype(0), "scale")
                                    : node.scalar(node.real("alpha", 1), node.dtype(0));
  const ValueId z = node.pointwise(C::Mul, {node.in(0), scale}, "scaled");
  return {node.pointwise(C::Silu, {z}, 1)};
}

Values import_gated_add(NodeImport& node) {
  const ValueId gated = node.pointwise(C::Mul, {node.in(1), node.in(2)}, "gated");
  return {node.pointwise(C::Add, {node.in(0), gated})};
}

// inputs: a, bias and scale per head (float32), [b]. decay = scale softplus(a + bias), beta = sigmoid(b)
Values import_linear_attention_gate(NodeImport& node) {
  const DType type = node.dtype(0);
  const ValueId a = node.cast(node.in(0), DType::Float32, "a");
  const ValueId soft =
      node.pointwise(C::Softplus, {node.pointwise(C::Add, {a, node.in(1)}, "bias")}, "softplus");
  Values results = {node.cast(node.pointwise(C::Mul, {soft, node.in(2)}, "decay"), type, "result")};
  if (node.has(3)) results.push_back(node.pointwise(C::Sigmoid, {node.in(3)}, "beta"));
  return results;
}

}  // namespace

ValueId apply_activation(NodeImport& node, ValueId x, std::string_view name,
                         const std::vector<float>& parameters) {
  if (name.empty()) return x;
  for (const Activation& a : kActivations) {
    if (a.name != name) continue;
    const float alpha = !parameters.empty() ? parameters[0] : a.alpha;
    const float beta = parameters.size() > 1 ? parameters[1] : a.beta;
    return node.pointwise(a.code, {x}, alpha, beta, "activation");
  }
  throw_unsupported("its activation '" + std::string(name) + "' is not known");
}

ValueId add_optional(NodeImport& node, ValueId x, ValueId y, std::string_view suffix) {
  return y == kNoValue ? x : node.pointwise(C::Add, {x, y}, suffix);
}

std::vector<Importer> microsoft_activation_importers() {
  return {{"BiasAdd", 1, kLatestOpset, import_bias_add, kMicrosoftDomain},
          {"BiasDropout", 1, kLatestOpset, import_bias_dropout, kMicrosoftDomain},
          {"BiasGelu", 1, kLatestOpset, import_with_bias<C::GeluErf>, kMicrosoftDomain},
          {"BiasSoftmax", 1, kLatestOpset, import_bias_softmax, kMicrosoftDomain},
          {"BiasSplitGelu", 1, kLatestOpset, import_bias_split_gelu, kMicrosoftDomain},
          {"FastGelu", 1, kLatestOpset, import_with_bias<C::GeluTanh>, kMicrosoftDomain},
          {"GatedAdd", 1, kLatestOpset, import_gated_add, kMicrosoftDomain},
          {"Gelu", 1, kLatestOpset, import_with_bias<C::GeluErf>, kMicrosoftDomain},
          {"LinearAttentionGate", 1, kLatestOpset, import_linear_attention_gate, kMicrosoftDomain},
          {"QuickGelu", 1, kLatestOpset, import_quick_gelu, kMicrosoftDomain},
          {"ScaledSiLU", 1, kLatestOpset, import_scaled_silu, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
