// SPDX-License-Identifier: Apache-2.0
#include "onnx/ml/scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "onnx/strings.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

ValueId number(NodeImport& node, double value) {
  return node.scalar(value, DType::Float32);
}

// A softmax in which scores of zero stay zero.
ValueId softmax_zero(NodeImport& node, ValueId x) {
  const ValueId highest = node.reduce(ReduceKind::Max, x, {1}, true, "highest");
  const ValueId power = node.pointwise(C::Exp, {binary(node, C::Sub, x, highest, "below_highest")}, "power");
  const ValueId counts =
      binary(node, C::Greater, node.pointwise(C::Abs, {x}, "size"), number(node, 1e-7), "counts");
  const ValueId kept = node.pointwise(C::Where, {counts, power, number(node, 0)}, "kept");
  return binary(node, C::Div, kept, node.reduce(ReduceKind::Sum, kept, {1}, true, "kept_sum"),
                "softmax_zero");
}

// sqrt(2) times the inverse error function of 2 x - 1, as ONNX Runtime approximates it.
ValueId probit(NodeImport& node, ValueId x) {
  constexpr double kA = 0.147;
  const ValueId z =
      binary(node, C::Sub, binary(node, C::Mul, x, number(node, 2), "twice"), number(node, 1), "centred");
  const ValueId inside =
      binary(node, C::Sub, number(node, 1), node.pointwise(C::Square, {z}, "square"), "inside");
  const ValueId log = node.pointwise(C::Log, {inside}, "log");
  const ValueId v = binary(node, C::Add, binary(node, C::Mul, log, number(node, 0.5), "half_log"),
                           number(node, 2 / (M_PI * kA)), "v");
  const ValueId root =
      node.pointwise(C::Sqrt,
                     {binary(node, C::Sub, node.pointwise(C::Square, {v}, "v_square"),
                             binary(node, C::Mul, log, number(node, 1 / kA), "scaled_log"), "radicand")},
                     "root");
  const ValueId size = node.pointwise(C::Sqrt, {binary(node, C::Sub, root, v, "difference")}, "inverse_size");
  const ValueId erf = binary(node, C::Mul, node.pointwise(C::Sign, {z}, "sign"), size, "inverse");
  return binary(node, C::Mul, erf, number(node, std::sqrt(2.0)), "probit");
}

ValueId beside(NodeImport& node, ValueId a, ValueId b) {
  return node.add(Concat{.axis = 1}, {a, b}, "both_scores");
}

}  // namespace

std::string post_transform(const NodeImport& node) {
  constexpr std::array kNames = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const AttributeProto* a = node.find("post_transform");
  // TreeEnsemble numbers them.
  const int64_t number = a && a->type == AttributeProto::Type::Int ? a->i : -1;
  const std::string name =
      number >= 0 && number < 5 ? kNames[static_cast<size_t>(number)] : node.text("post_transform", "NONE");
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
    node.fail("post_transform is '" + name + "', not NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT");
  return name;
}

ValueId as_float(NodeImport& node, size_t input) {
  return node.cast(node.in(input), DType::Float32, "float");
}

ValueId as_rows(NodeImport& node, ValueId x) {
  const Shape s = node.shape_of(x);
  if (s.size() == 2) return x;
  if (s.size() != 1) node.fail("its input needs one or two dimensions");
  return node.reshape(x, {1, s[0]}, "row");
}

ValueId transform_scores(NodeImport& node, ValueId scores, const std::string& name) {
  if (name == "SOFTMAX") return node.add(Softmax{.axis = 1}, {scores}, "softmax");
  if (name == "LOGISTIC") return node.pointwise(C::Sigmoid, {scores}, "logistic");
  if (name == "SOFTMAX_ZERO") return softmax_zero(node, scores);
  if (name == "PROBIT") return probit(node, scores);
  return scores;
}

// A logistic transformation is one of the score and its negative. Otherwise the other class has what is
// missing from one, or the negative score; ONNX Runtime does not apply softmax to two classes with one score,
// and converters rely on it.
ValueId transform_binary(NodeImport& node, ValueId score, bool mixed, const std::string& name) {
  if (name == "PROBIT") return probit(node, score);
  const bool logistic = name == "LOGISTIC";
  if (!mixed && !logistic) return beside(node, binary(node, C::Sub, number(node, 1), score, "other"), score);
  const ValueId both = beside(node, node.pointwise(C::Neg, {score}, "other"), score);
  return logistic ? node.pointwise(C::Sigmoid, {both}, "logistic") : both;
}

Ints class_labels(NodeImport& node) {
  if (const auto strings = node.texts("classlabels_strings"); !strings.empty()) {
    Ints numbers(strings.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }
  for (const std::string_view name : {"classlabels_ints", "classlabels_int64s", "cats_int64s"})
    if (const auto labels = node.ints(name); labels && !labels->empty()) return *labels;
  node.fail("it has no class labels");
}

Values with_string_labels(NodeImport& node, Values results) {
  if (const auto strings = node.texts("classlabels_strings"); !strings.empty())
    results[0] = pick_strings(node, strings, results[0]);
  return results;
}

ValueId labels_at(NodeImport& node, ValueId index, const Ints& labels) {
  bool counted = true;
  for (size_t i = 0; i < labels.size(); ++i) counted &= labels[i] == static_cast<int64_t>(i);
  return counted ? index : node.add(Gather{.axis = 0}, {node.ints_constant(labels), index}, "labels");
}

ValueId label_choice(NodeImport& node, ValueId condition, int64_t yes, int64_t no) {
  const auto label = [&](int64_t value) { return node.constant(Tensor::scalar_i64(value), "label"); };
  const ValueId chosen = node.pointwise(C::Where, {condition, label(yes), label(no)}, "chosen");
  return node.reshape(chosen, {node.shape_of(condition)[0]}, "labels");
}

ValueId float_constant(NodeImport& node, const std::vector<float>& values, Extents extents,
                       std::string_view name) {
  if (element_count(extents) != static_cast<int64_t>(values.size()))
    node.fail(std::string(name) + " has " + std::to_string(values.size()) + " numbers instead of " +
              std::to_string(element_count(extents)));
  return node.constant(Tensor::from<float>(std::move(extents), values), name);
}

}  // namespace lathe::onnx
