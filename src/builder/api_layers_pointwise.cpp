// SPDX-License-Identifier: Apache-2.0
//
// Layers of the network API: pointwise operations and products.
#include <array>

#include "lathe/network.h"

namespace lathe::v1 {

namespace {

constexpr std::array kUnary = {"Exp",   "Log",   "Sqrt",  "Reciprocal", "Abs",       "Neg",  "Sin",
                               "Cos",   "Tan",   "Sinh",  "Cosh",       "Asin",      "Acos", "Atan",
                               "Asinh", "Acosh", "Atanh", "Ceil",       "Floor",     "Erf",  "Not",
                               "Sign",  "Round", "IsInf", "IsNaN",      "BitwiseNot"};
constexpr std::array kElementwise = {"Add",         "Mul",   "Max",        "Min",       "Sub",
                                     "Div",         "Pow",   "",           "And",       "Or",
                                     "Xor",         "Equal", "Greater",    "Less",      "GreaterOrEqual",
                                     "LessOrEqual", "Mod",   "BitwiseAnd", "BitwiseOr", "BitwiseXor"};

bool is_real(DataType type) {
  return type == DataType::Float || type == DataType::Half || type == DataType::Double ||
         type == DataType::BFloat16;
}

// ONNX's operator of an activation and what it calls alpha and beta; "": it has none.
struct ActivationRow {
  const char *op_type, *alpha = "", *beta = "";
};
ActivationRow row_of(Activation kind) {
  switch (kind) {
    case Activation::Relu:
      return {"Relu"};
    case Activation::Sigmoid:
      return {"Sigmoid"};
    case Activation::Tanh:
      return {"Tanh"};
    case Activation::LeakyRelu:
      return {"LeakyRelu", "alpha"};
    case Activation::Elu:
      return {"Elu", "alpha"};
    case Activation::Selu:
      return {"Selu", "alpha", "gamma"};
    case Activation::Softsign:
      return {"Softsign"};
    case Activation::Softplus:
      return {"Softplus"};
    case Activation::HardSigmoid:
      return {"HardSigmoid", "alpha", "beta"};
    case Activation::ThresholdedRelu:
      return {"ThresholdedRelu", "alpha"};
    case Activation::GeluErf:
    case Activation::GeluTanh:
      return {"Gelu"};
    case Activation::Silu:
      return {"Swish", "alpha"};
    case Activation::HardSwish:
      return {"HardSwish"};
    case Activation::Mish:
      return {"Mish"};
    case Activation::Celu:
      return {"Celu", "alpha"};
    case Activation::Clip:
    case Activation::ScaledTanh:
      break;
  }
  return {""};
}

Attributes spatial(const ConvolutionOptions& o) {
  Attributes attributes = {{"group", o.groups}};
  if (!o.strides.empty()) attributes["strides"] = o.strides;
  if (!o.dilations.empty()) attributes["dilations"] = o.dilations;
  if (!o.output_padding.empty()) attributes["output_padding"] = o.output_padding;
  if (o.auto_padding == AutoPadding::None) {
    Dims pads = o.pads_begin;
    pads.insert(pads.end(), o.pads_end.begin(), o.pads_end.end());
    if (!pads.empty()) attributes["pads"] = pads;
  } else {
    attributes["auto_pad"] = o.auto_padding == AutoPadding::SameUpper ? "SAME_UPPER" : "SAME_LOWER";
  }
  return attributes;
}

}  // namespace

NetworkTensor NetworkBuilder::activation(Activation kind, const NetworkTensor& x, std::optional<double> alpha,
                                         std::optional<double> beta, const std::string& name) {
  const auto bound = [&](std::optional<double> v) { return v ? scalar(*v, x.type()) : NetworkTensor(); };
  if (kind == Activation::Clip) return one("Clip", {x, bound(alpha), bound(beta)}, {}, name);
  if (kind == Activation::ScaledTanh)
    return one(
        "Mul",
        {bound(alpha.value_or(1)), one("Tanh", {one("Mul", {x, bound(beta.value_or(1))}, {}, "")}, {}, "")},
        {}, name);
  const ActivationRow row = row_of(kind);
  Attributes attributes;
  if (alpha && *row.alpha) attributes[row.alpha] = *alpha;
  if (beta && *row.beta) attributes[row.beta] = *beta;
  if (kind == Activation::GeluTanh) attributes["approximate"] = "tanh";
  return one(row.op_type, {x}, attributes, name);
}

NetworkTensor NetworkBuilder::unary(Unary kind, const NetworkTensor& x, const std::string& name) {
  return one(kUnary.at(static_cast<size_t>(kind)), {x}, {}, name);
}

NetworkTensor NetworkBuilder::elementwise(Elementwise kind, const NetworkTensor& a, const NetworkTensor& b,
                                          const std::string& name) {
  const bool real = is_real(a.type());
  if (kind == Elementwise::FloorDiv && real) return one("Floor", {one("Div", {a, b}, {}, "")}, {}, name);
  if (kind == Elementwise::FloorDiv)  // a - mod(a, b), which has the sign of b, is a multiple of b
    return one("Div", {one("Sub", {a, one("Mod", {a, b}, {}, "")}, {}, ""), b}, {}, name);
  Attributes attributes;
  if (kind == Elementwise::Mod && real) attributes["fmod"] = int64_t{1};
  return one(kElementwise.at(static_cast<size_t>(kind)), {a, b}, attributes, name);
}

NetworkTensor NetworkBuilder::select(const NetworkTensor& condition, const NetworkTensor& then,
                                     const NetworkTensor& otherwise, const std::string& name) {
  return one("Where", {condition, then, otherwise}, {}, name);
}

NetworkTensor NetworkBuilder::parametric_relu(const NetworkTensor& x, const NetworkTensor& slope,
                                              const std::string& name) {
  return one("PRelu", {x, slope}, {}, name);
}

// A tensor of one dim, with ones behind it so that it lies along an axis of x.
NetworkTensor NetworkBuilder::along(const NetworkTensor& values, const NetworkTensor& x, int64_t axis) {
  const auto rank = static_cast<int64_t>(x.dims().size());
  const Dims dims = values.dims();
  if (dims.size() != 1) return values;
  Dims shape(static_cast<size_t>(rank - (axis < 0 ? axis + rank : axis)), 1);
  shape[0] = -1;
  return reshape(values, shape);
}

NetworkTensor NetworkBuilder::scale(const NetworkTensor& x, const NetworkTensor& scale,
                                    const NetworkTensor& shift, const NetworkTensor& power, int64_t axis,
                                    const std::string& name) {
  NetworkTensor y = x;
  const auto apply = [&](const char* op_type, const NetworkTensor& values, bool last) {
    if (values) y = one(op_type, {y, along(values, x, axis)}, {}, last ? name : "");
  };
  apply("Mul", scale, !shift && !power);
  apply("Add", shift, !power);
  apply("Pow", power, true);
  return y;
}

NetworkTensor NetworkBuilder::cast(const NetworkTensor& x, DataType type, const std::string& name) {
  return one("Cast", {x}, {{"to", static_cast<int64_t>(type)}}, name);
}

NetworkTensor NetworkBuilder::identity(const NetworkTensor& x, const std::string& name) {
  return one("Identity", {x}, {}, name);
}

// --- products

NetworkTensor NetworkBuilder::convolution(const NetworkTensor& x, const NetworkTensor& weights,
                                          const NetworkTensor& bias, const ConvolutionOptions& options,
                                          const std::string& name) {
  return one("Conv", {x, weights, bias}, spatial(options), name);
}

NetworkTensor NetworkBuilder::deconvolution(const NetworkTensor& x, const NetworkTensor& weights,
                                            const NetworkTensor& bias, const ConvolutionOptions& options,
                                            const std::string& name) {
  return one("ConvTranspose", {x, weights, bias}, spatial(options), name);
}

NetworkTensor NetworkBuilder::matrix_multiply(const NetworkTensor& a, const NetworkTensor& b,
                                              bool transpose_a, bool transpose_b, const std::string& name) {
  const auto swapped = [&](const NetworkTensor& x, bool swap) {
    const auto rank = static_cast<int64_t>(x.dims().size());
    if (!swap || rank < 2) return x;
    Dims perm;
    for (int64_t d = 0; d < rank; ++d) perm.push_back(d);
    std::swap(perm[static_cast<size_t>(rank - 1)], perm[static_cast<size_t>(rank - 2)]);
    return transpose(x, perm);
  };
  return one("MatMul", {swapped(a, transpose_a), swapped(b, transpose_b)}, {}, name);
}

NetworkTensor NetworkBuilder::einsum(const std::string& equation, const NetworkTensors& inputs,
                                     const std::string& name) {
  return one("Einsum", inputs, {{"equation", equation}}, name);
}

NetworkTensor NetworkBuilder::attention(const NetworkTensor& q, const NetworkTensor& k,
                                        const NetworkTensor& v, const NetworkTensor& mask, bool causal,
                                        std::optional<double> scale, const std::string& name) {
  Attributes attributes = {{"is_causal", int64_t{causal}}};
  if (scale) attributes["scale"] = *scale;
  return one("Attention", {q, k, v, mask}, attributes, name);
}

NetworkTensor NetworkBuilder::rotary_embedding(const NetworkTensor& x, const NetworkTensor& cos_cache,
                                               const NetworkTensor& sin_cache,
                                               const NetworkTensor& position_ids, bool interleaved,
                                               int64_t rotary_dim, const std::string& name) {
  return one("RotaryEmbedding", {x, cos_cache, sin_cache, position_ids},
             {{"interleaved", int64_t{interleaved}}, {"rotary_embedding_dim", rotary_dim}}, name);
}

NetworkTensor NetworkBuilder::kv_cache_update(const NetworkTensor& cache, const NetworkTensor& update,
                                              const NetworkTensor& write_indices, const std::string& name) {
  return one("TensorScatter", {cache, update, write_indices}, {}, name);
}

// --- quantization

NetworkTensor NetworkBuilder::quantize(const NetworkTensor& x, const NetworkTensor& scale,
                                       const NetworkTensor& zero_point, DataType type, int64_t axis,
                                       int64_t block, const std::string& name) {
  Attributes attributes = {{"axis", axis}, {"block_size", block}};
  if (!zero_point) attributes["output_dtype"] = static_cast<int64_t>(type);
  return one("QuantizeLinear", {x, scale, zero_point}, attributes, name);
}

NetworkTensor NetworkBuilder::dequantize(const NetworkTensor& x, const NetworkTensor& scale,
                                         const NetworkTensor& zero_point, int64_t axis, int64_t block,
                                         const std::string& name) {
  return one("DequantizeLinear", {x, scale, zero_point}, {{"axis", axis}, {"block_size", block}}, name);
}

}  // namespace lathe::v1
