// SPDX-License-Identifier: Apache-2.0
//
// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: what the target's class gets, negated and weighted,
// then reduced.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

class LossImport {
 public:
  // `x`: log probabilities (N, C, d1, ...); inputs 1 and 2 are target (N, d1, ...) and weight (C).
  LossImport(NodeImport& node, ValueId x) : node_(node), x_(x) {
    const Shape shape = node_.shape_of(x);
    if (shape.size() < 2 || node_.rank(1) + 1 != static_cast<int64_t>(shape.size()))
      node_.fail("the scores need two or more dimensions (batch, classes, ...), the target one less");
  }

  ValueId run() {
    read_target();
    Shape column = node_.shape_of(target_);
    column.insert(column.begin() + 1, Dim(1));
    const ValueId index = node_.reshape(target_, column, "index");
    const ValueId picked = node_.add(GatherElements{.axis = 1}, {x_, index}, "picked");
    ValueId loss = node_.pointwise(C::Neg, {node_.reshape(picked, node_.shape_of(target_), "picked_row")}, 0,
                                   0, "negative");
    const ValueId weight = weights();
    if (weight != kNoValue) loss = node_.pointwise(C::Mul, {loss, weight}, 0, 0, "weighted");
    if (ignored_ != kNoValue) loss = node_.pointwise(C::Where, {ignored_, number(0), loss}, 0, 0, "kept");
    return reduced(loss, weight);
  }

 private:
  ValueId number(double value) { return node_.scalar(value, node_.dtype_of(x_)); }

  // Classes that are ignored become class 0, so that they can be looked up.
  void read_target() {
    target_ = node_.cast(node_.in(1), DType::Int64, "target");
    if (!node_.has_attribute("ignore_index")) return;
    const auto index = static_cast<double>(node_.integer("ignore_index", 0));
    ignored_ = node_.pointwise(C::Equal, {target_, node_.scalar(index, DType::Int64)}, 0, 0, "is_ignored");
    target_ =
        node_.pointwise(C::Where, {ignored_, node_.scalar(0, DType::Int64), target_}, 0, 0, "safe_target");
  }

  // The weight of each element; none when all count the same.
  ValueId weights() {
    if (!node_.has(2) && ignored_ == kNoValue) return kNoValue;
    ValueId weight = number(1);
    if (node_.has(2)) weight = node_.add(Gather{.axis = 0}, {node_.in(2), target_}, "weight");
    if (ignored_ == kNoValue) return weight;
    return node_.pointwise(C::Where, {ignored_, number(0), weight}, 0, 0, "weight_or_zero");
  }

  ValueId sum(ValueId v, std::string_view name) {
    Ints axes;
    for (size_t i = 0; i < node_.shape_of(v).size(); ++i) axes.push_back(static_cast<int64_t>(i));
    return node_.reduce(ReduceKind::Sum, v, axes, false, name);
  }

  ValueId reduced(ValueId loss, ValueId weight) {
    const std::string reduction = node_.text("reduction", "mean");
    if (reduction == "none") return loss;
    if (reduction == "sum") return sum(loss, "sum");
    if (reduction != "mean") node_.fail("reduction is '" + reduction + "', expected none, sum or mean");
    if (weight != kNoValue)
      return node_.pointwise(C::Div, {sum(loss, "sum"), sum(weight, "total_weight")}, 0, 0, "mean");
    Ints axes;
    for (size_t i = 0; i < node_.shape_of(loss).size(); ++i) axes.push_back(static_cast<int64_t>(i));
    return node_.reduce(ReduceKind::Mean, loss, axes, false, "mean");
  }

  NodeImport& node_;
  ValueId x_, target_ = kNoValue, ignored_ = kNoValue;
};

Values import_nll(NodeImport& node) {
  return {LossImport(node, node.in(0)).run()};
}

Values import_cross_entropy(NodeImport& node) {
  const ValueId probabilities = node.add(Softmax{.axis = 1, .log = true}, {node.in(0)}, "log_softmax");
  return {LossImport(node, probabilities).run(), probabilities};
}

}  // namespace

std::vector<Importer> loss_importers() {
  return {{"NegativeLogLikelihoodLoss", 12, kLatestOpset, import_nll},
          {"SoftmaxCrossEntropyLoss", 12, kLatestOpset, import_cross_entropy}};
}

}  // namespace lathe::onnx
