// SPDX-License-Identifier: Apache-2.0
//
// Unary, binary and variadic elementwise operators, activations, Where. Most are one table row.
#include <limits>

#include "onnx/import_random.h"
#include "onnx/importers.h"
#include "onnx/strings.h"

namespace lathe::onnx {

namespace {

void check_input_count(const NodeImport& node, size_t most) {
  if (node.input_count() > most)
    node.fail("has " + std::to_string(node.input_count()) + " inputs, and takes " + std::to_string(most));
}

template <PointwiseCode code>
Values import_unary(NodeImport& node) {
  check_input_count(node, 1);
  return {node.pointwise(code, {node.in(0)})};
}

template <PointwiseCode code>
Values import_binary(NodeImport& node) {
  check_input_count(node, 2);
  return {node.pointwise(code, {node.in(0), node.in(1)})};
}

Values import_equal(NodeImport& node) {
  return is_string(node, 0) || is_string(node, 1) ? import_string_equal(node)
                                                  : import_binary<PointwiseCode::Equal>(node);
}

// Sum, Max, Min of one or more inputs: a chain.
template <PointwiseCode code>
ValueId chain(NodeImport& node) {
  ValueId result = node.in(0);
  for (size_t i = 1; i < node.input_count(); ++i) {
    result = node.pointwise(code, {result, node.in(i)}, 0, 0,
                            i + 1 < node.input_count() ? "step" + std::to_string(i) : "");
  }
  return result;
}

template <PointwiseCode code>
Values import_variadic(NodeImport& node) {
  return {chain<code>(node)};
}

Values import_mean(NodeImport& node) {
  const ValueId sum = chain<PointwiseCode::Add>(node);
  if (node.input_count() == 1) return {sum};
  const ValueId count = node.scalar(static_cast<double>(node.input_count()), node.dtype_of(sum));
  return {node.pointwise(PointwiseCode::Div, {sum, count}, 0, 0, "mean")};
}

// Attributes of activations with ONNX's defaults.
struct ActivationParameters {
  std::string_view alpha_name;
  float alpha;
  std::string_view beta_name;
  float beta;
};

Values import_activation(NodeImport& node, PointwiseCode code, const ActivationParameters& p) {
  const float alpha = p.alpha_name.empty() ? p.alpha : node.real(p.alpha_name, p.alpha);
  const float beta = p.beta_name.empty() ? p.beta : node.real(p.beta_name, p.beta);
  return {node.pointwise(code, {node.in(0)}, alpha, beta)};
}

Values import_leaky_relu(NodeImport& node) {
  return import_activation(node, PointwiseCode::LeakyRelu, {"alpha", 0.01f, "", 0});
}
Values import_elu(NodeImport& node) {
  return import_activation(node, PointwiseCode::Elu, {"alpha", 1, "", 0});
}
Values import_celu(NodeImport& node) {
  return import_activation(node, PointwiseCode::Celu, {"alpha", 1, "", 0});
}
Values import_selu(NodeImport& node) {
  return import_activation(node, PointwiseCode::Selu,
                           {"alpha", 1.67326319217681884765625f, "gamma", 1.05070102214813232421875f});
}
Values import_thresholded_relu(NodeImport& node) {
  return import_activation(node, PointwiseCode::ThresholdedRelu, {"alpha", 1, "", 0});
}
Values import_hard_sigmoid(NodeImport& node) {
  return import_activation(node, PointwiseCode::HardSigmoid, {"alpha", 0.2f, "beta", 0.5f});
}
Values import_shrink(NodeImport& node) {
  return import_activation(node, PointwiseCode::Shrink, {"bias", 0, "lambd", 0.5f});
}
Values import_swish(NodeImport& node) {
  return import_activation(node, PointwiseCode::Silu, {"alpha", 1, "", 0});
}

// swish(a) * b
Values import_swiglu(NodeImport& node) {
  const ValueId gate = node.pointwise(PointwiseCode::Silu, {node.in(0)}, node.real("alpha", 1), 0, "gate");
  return {node.pointwise(PointwiseCode::Mul, {gate, node.in(1)})};
}

Values import_is_inf(NodeImport& node) {
  const auto negative = static_cast<float>(node.integer("detect_negative", 1) != 0);
  const auto positive = static_cast<float>(node.integer("detect_positive", 1) != 0);
  return {node.pointwise(PointwiseCode::IsInf, {node.in(0)}, negative, positive)};
}

Values import_gelu(NodeImport& node) {
  const std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    node.fail("approximate is '" + approximate + "', not 'none' or 'tanh'");
  return {
      node.pointwise(approximate == "tanh" ? PointwiseCode::GeluTanh : PointwiseCode::GeluErf, {node.in(0)})};
}

Values import_mod(NodeImport& node) {
  const bool fmod = node.integer("fmod", 0) != 0;
  return {node.pointwise(fmod ? PointwiseCode::FMod : PointwiseCode::Mod, {node.in(0), node.in(1)})};
}

Values import_bit_shift(NodeImport& node) {
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    node.fail("direction is '" + direction + "', not 'LEFT' or 'RIGHT'");
  return {node.pointwise(direction == "LEFT" ? PointwiseCode::ShiftLeft : PointwiseCode::ShiftRight,
                         {node.in(0), node.in(1)})};
}

// The exponent may have another type; the result has the base's. A whole base with a fractional exponent
// computes in the exponent's type.
Values import_pow(NodeImport& node) {
  const DType base = node.dtype(0), exponent = node.dtype(1);
  const DType work = is_float(base) || !is_float(exponent) ? base : exponent;
  const ValueId x = node.cast(node.in(0), work, "base"), y = node.cast(node.in(1), work, "exponent");
  return {node.cast(node.pointwise(PointwiseCode::Pow, {x, y}), base, "result")};
}

Values import_clip_attributes(NodeImport& node) {
  const float low = node.real("min", std::numeric_limits<float>::lowest());
  const float high = node.real("max", std::numeric_limits<float>::max());
  return {node.pointwise(PointwiseCode::Clip, {node.in(0)}, low, high)};
}

// Constant float bounds become parameters; others are Max and Min with the bound as operand.
Values import_clip(NodeImport& node) {
  const Tensor low = node.constant(1), high = node.constant(2);
  if (node.dtype(0) == DType::Float32 && low && high && low.size() == 1 && high.size() == 1) {
    return {node.pointwise(PointwiseCode::Clip, {node.in(0)}, static_cast<float>(low.to_doubles()[0]),
                           static_cast<float>(high.to_doubles()[0]))};
  }
  ValueId result = node.in(0);
  if (node.has(1))
    result = node.pointwise(PointwiseCode::Max, {result, node.in(1)}, 0, 0, node.has(2) ? "min" : "");
  if (node.has(2)) result = node.pointwise(PointwiseCode::Min, {result, node.in(2)});
  return {result};
}

Values import_where(NodeImport& node) {
  return {node.pointwise(PointwiseCode::Where, {node.in(0), node.in(1), node.in(2)})};
}

// Elements that are drawn below the ratio become 0, the others grow by 1 / (1 - ratio); nothing changes where
// `training`, a boolean that only a run knows, is false.
Values drop_elements(NodeImport& node) {
  const ValueId x = node.in(0);
  const ValueId one = node.scalar(1, DType::Float32), zero = node.scalar(0, node.dtype(0));
  ValueId ratio =
      node.has(1) ? node.cast(node.in(1), DType::Float32, "ratio") : node.scalar(0.5, DType::Float32);
  if (!node.known_ints(2)) {
    const ValueId none = node.scalar(0, DType::Float32);
    ratio = node.pointwise(PointwiseCode::Where, {node.in(2), ratio, none}, 0, 0, "ratio_now");
  }
  const ValueId drawn = draw_uniform(node, x, "drawn");
  const ValueId mask = node.pointwise(PointwiseCode::GreaterOrEqual, {drawn, ratio}, 0, 0, "mask");
  const ValueId kept = node.pointwise(PointwiseCode::Sub, {one, ratio}, 0, 0, "kept");
  const ValueId scaled =
      node.pointwise(PointwiseCode::Div, {x, node.cast(kept, node.dtype(0), "kept_ratio")}, 0, 0, "scaled");
  return {node.pointwise(PointwiseCode::Where, {mask, scaled, zero}), mask};
}

// Dropout does nothing at inference; its mask is true everywhere.
Values import_dropout(NodeImport& node) {
  const auto training = node.known_ints(2);
  const Tensor ratio = node.constant(1);
  const bool keeps_all = ratio && ratio.size() == 1 && ratio.to_doubles()[0] == 0;
  if (node.has(2) && !keeps_all && (!training || training->size() != 1 || training->front()))
    return drop_elements(node);
  Values results = {node.in(0)};
  if (node.wants_output(1)) {
    results.push_back(node.add(Fill{.shape = node.shape(0), .dtype = DType::Bool, .value = 1}, {}, "mask"));
  }
  return results;
}

using C = PointwiseCode;

std::vector<Importer> unary_importers() {
  return {{"Abs", 1, kLatestOpset, import_unary<C::Abs>},
          {"Acos", 7, kLatestOpset, import_unary<C::Acos>},
          {"Acosh", 9, kLatestOpset, import_unary<C::Acosh>},
          {"Asin", 7, kLatestOpset, import_unary<C::Asin>},
          {"Asinh", 9, kLatestOpset, import_unary<C::Asinh>},
          {"Atan", 7, kLatestOpset, import_unary<C::Atan>},
          {"Atanh", 9, kLatestOpset, import_unary<C::Atanh>},
          {"BitwiseNot", 18, kLatestOpset, import_unary<C::BitwiseNot>},
          {"Ceil", 1, kLatestOpset, import_unary<C::Ceil>},
          {"Cos", 7, kLatestOpset, import_unary<C::Cos>},
          {"Cosh", 9, kLatestOpset, import_unary<C::Cosh>},
          {"Erf", 9, kLatestOpset, import_unary<C::Erf>},
          {"Exp", 1, kLatestOpset, import_unary<C::Exp>},
          {"Floor", 1, kLatestOpset, import_unary<C::Floor>},
          {"HardSwish", 14, kLatestOpset, import_unary<C::HardSwish>},
          {"IsNaN", 9, kLatestOpset, import_unary<C::IsNaN>},
          {"Log", 1, kLatestOpset, import_unary<C::Log>},
          {"Mish", 18, kLatestOpset, import_unary<C::Mish>},
          {"Neg", 1, kLatestOpset, import_unary<C::Neg>},
          {"Not", 1, kLatestOpset, import_unary<C::Not>},
          {"Reciprocal", 1, kLatestOpset, import_unary<C::Reciprocal>},
          {"Relu", 1, kLatestOpset, import_unary<C::Relu>},
          {"Round", 11, kLatestOpset, import_unary<C::Round>},
          {"Sigmoid", 1, kLatestOpset, import_unary<C::Sigmoid>},
          {"Sign", 9, kLatestOpset, import_unary<C::Sign>},
          {"Sin", 7, kLatestOpset, import_unary<C::Sin>},
          {"Sinh", 9, kLatestOpset, import_unary<C::Sinh>},
          {"Softplus", 1, kLatestOpset, import_unary<C::Softplus>},
          {"Softsign", 1, kLatestOpset, import_unary<C::Softsign>},
          {"Sqrt", 1, kLatestOpset, import_unary<C::Sqrt>},
          {"Tan", 7, kLatestOpset, import_unary<C::Tan>},
          {"Tanh", 1, kLatestOpset, import_unary<C::Tanh>}};
}

std::vector<Importer> binary_importers() {
  return {{"Add", 7, kLatestOpset, import_binary<C::Add>},
          {"And", 7, kLatestOpset, import_binary<C::And>},
          {"BitwiseAnd", 18, kLatestOpset, import_binary<C::BitwiseAnd>},
          {"BitwiseOr", 18, kLatestOpset, import_binary<C::BitwiseOr>},
          {"BitwiseXor", 18, kLatestOpset, import_binary<C::BitwiseXor>},
          {"Div", 7, kLatestOpset, import_binary<C::Div>},
          {"Equal", 7, kLatestOpset, import_equal, {}, true},
          {"Greater", 7, kLatestOpset, import_binary<C::Greater>},
          {"GreaterOrEqual", 12, kLatestOpset, import_binary<C::GreaterOrEqual>},
          {"Less", 7, kLatestOpset, import_binary<C::Less>},
          {"LessOrEqual", 12, kLatestOpset, import_binary<C::LessOrEqual>},
          {"Mul", 7, kLatestOpset, import_binary<C::Mul>},
          {"Or", 7, kLatestOpset, import_binary<C::Or>},
          {"PRelu", 7, kLatestOpset, import_binary<C::PRelu>},
          {"Sub", 7, kLatestOpset, import_binary<C::Sub>},
          {"Xor", 7, kLatestOpset, import_binary<C::Xor>}};
}

std::vector<Importer> other_importers() {
  return {{"BitShift", 11, kLatestOpset, import_bit_shift},
          {"Celu", 12, kLatestOpset, import_celu},
          {"Clip", 1, 10, import_clip_attributes},
          {"Clip", 11, kLatestOpset, import_clip},
          {"Dropout", 7, kLatestOpset, import_dropout},
          {"Elu", 1, kLatestOpset, import_elu},
          {"Gelu", 20, kLatestOpset, import_gelu},
          {"HardSigmoid", 1, kLatestOpset, import_hard_sigmoid},
          {"IsInf", 10, kLatestOpset, import_is_inf},
          {"LeakyRelu", 1, kLatestOpset, import_leaky_relu},
          {"Max", 1, kLatestOpset, import_variadic<C::Max>},
          {"Mean", 1, kLatestOpset, import_mean},
          {"Min", 1, kLatestOpset, import_variadic<C::Min>},
          {"Mod", 10, kLatestOpset, import_mod},
          {"Pow", 7, kLatestOpset, import_pow},
          {"Selu", 6, kLatestOpset, import_selu},
          {"Shrink", 9, kLatestOpset, import_shrink},
          {"Sum", 1, kLatestOpset, import_variadic<C::Add>},
          {"SwiGLU", 28, kLatestOpset, import_swiglu},
          {"Swish", 24, kLatestOpset, import_swish},
          {"ThresholdedRelu", 10, kLatestOpset, import_thresholded_relu},
          {"Where", 9, kLatestOpset, import_where}};
}

}  // namespace

std::vector<Importer> pointwise_importers() {
  std::vector<Importer> all = unary_importers();
  for (const auto& list : {binary_importers(), other_importers()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace lathe::onnx
