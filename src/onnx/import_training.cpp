// SPDX-License-Identifier: Apache-2.0
//
// Adagrad, Adam and Momentum: one step of an optimiser, with the gradients as inputs, as ONNX writes them in
// formulas. Inputs are the learning rate R, the number of the step T, and for each list of the operator
// (variables, gradients, moments) its tensors, one list behind the other; outputs are the new variables and
// moments in the same order.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

constexpr std::string_view kTrainingDomain = "ai.onnx.preview.training";
using C = PointwiseCode;

// The lists of an operator's tensors, and its formulas' words.
class Step {
 public:
  Step(NodeImport& node, size_t lists) : node_(node), lists_(lists) {
    const size_t tensors = node.input_count() < 2 ? 0 : node.input_count() - 2;
    if (tensors == 0 || tensors % lists != 0)
      node.fail("it takes a learning rate, a step and " + std::to_string(lists) +
                " tensors for each variable, not " + std::to_string(node.input_count()) + " inputs");
    count_ = tensors / lists;
  }
  size_t count() const { return count_; }
  ValueId tensor(size_t list, size_t i) const { return node_.in(2 + list * count_ + i); }
  DType dtype(size_t i) const { return node_.dtype_of(tensor(0, i)); }
  ValueId rate(DType dtype) const { return node_.cast(node_.in(0), dtype, "rate"); }
  ValueId step(DType dtype) const { return node_.cast(node_.in(1), dtype, "step"); }

  ValueId number(double value, DType dtype) const { return node_.scalar(value, dtype); }
  ValueId two(C code, ValueId a, ValueId b) const { return node_.pointwise(code, {a, b}); }
  ValueId add(ValueId a, ValueId b) const { return two(C::Add, a, b); }
  ValueId sub(ValueId a, ValueId b) const { return two(C::Sub, a, b); }
  ValueId mul(ValueId a, ValueId b) const { return two(C::Mul, a, b); }
  ValueId div(ValueId a, ValueId b) const { return two(C::Div, a, b); }
  ValueId root(ValueId a) const { return node_.pointwise(C::Sqrt, {a}); }
  ValueId scaled(double factor, ValueId a) const { return mul(number(factor, node_.dtype_of(a)), a); }
  // `later` in all steps but the first, whose number is 0.
  ValueId behind_first(ValueId later, ValueId first, DType dtype) const {
    const ValueId behind = two(C::Greater, step(dtype), number(0, dtype));
    return node_.pointwise(C::Where, {behind, later, first});
  }
  // norm_coefficient * X + G
  ValueId regularised_gradient(size_t i) const {
    const double norm = node_.real("norm_coefficient", 0);
    return norm == 0 ? tensor(1, i) : add(scaled(norm, tensor(0, i)), tensor(1, i));
  }
  // The results of `one` for each variable (the new tensors of lists 0, 2, 3, ...), in the order of outputs.
  template <class One>
  Values for_each(One&& one) const {
    Values results(count_ * (lists_ - 1), kNoValue);
    for (size_t i = 0; i < count_; ++i) {
      const Values made = one(i);
      for (size_t k = 0; k < made.size(); ++k) results[k * count_ + i] = made[k];
    }
    return results;
  }

 private:
  NodeImport& node_;
  size_t lists_, count_ = 0;
};

Values import_adagrad(NodeImport& node) {
  const Step s(node, 3);
  return s.for_each([&](size_t i) -> Values {
    const DType dtype = s.dtype(i);
    const ValueId decay = s.add(s.number(1, dtype), s.scaled(node.real("decay_factor", 0), s.step(dtype)));
    const ValueId rate = s.div(s.rate(dtype), decay), gradient = s.regularised_gradient(i);
    const ValueId squares = s.add(s.tensor(2, i), s.mul(gradient, gradient));
    const ValueId adaptive = s.add(s.root(squares), s.number(node.real("epsilon", 1e-6F), dtype));
    return {s.sub(s.tensor(0, i), s.div(s.mul(rate, gradient), adaptive)), squares};
  });
}

Values import_adam(NodeImport& node) {
  const Step s(node, 4);
  const double alpha = node.real("alpha", 0.9F), beta = node.real("beta", 0.999F);
  const double post = node.real("norm_coefficient_post", 0);
  return s.for_each([&](size_t i) -> Values {
    const DType dtype = s.dtype(i);
    const ValueId gradient = s.regularised_gradient(i), one = s.number(1, dtype);
    const ValueId mean = s.add(s.scaled(alpha, s.tensor(2, i)), s.scaled(1 - alpha, gradient));
    const ValueId squares =
        s.add(s.scaled(beta, s.tensor(3, i)), s.scaled(1 - beta, s.mul(gradient, gradient)));
    const ValueId divisor = s.add(s.root(squares), s.number(node.real("epsilon", 1e-6F), dtype));
    const auto rest = [&](double base) {  // 1 - base ** T
      return s.sub(one, s.two(C::Pow, s.number(base, dtype), s.step(dtype)));
    };
    const ValueId adjusted = s.div(s.mul(s.rate(dtype), s.root(rest(beta))), rest(alpha));
    const ValueId rate = s.behind_first(adjusted, s.rate(dtype), dtype);
    const ValueId next = s.sub(s.tensor(0, i), s.div(s.mul(rate, mean), divisor));
    return {post == 0 ? next : s.scaled(1 - post, next), mean, squares};
  });
}

Values import_momentum(NodeImport& node) {
  const Step s(node, 3);
  const std::string mode = node.text("mode", "");
  if (mode != "standard" && mode != "nesterov")
    node.fail("its mode is '" + mode + "'; there are standard and nesterov");
  const double alpha = node.real("alpha", 0), beta = node.real("beta", 0);
  return s.for_each([&](size_t i) -> Values {
    const DType dtype = s.dtype(i);
    const ValueId gradient = s.regularised_gradient(i);
    const ValueId factor = s.behind_first(s.number(beta, dtype), s.number(1, dtype), dtype);
    const ValueId moment = s.add(s.scaled(alpha, s.tensor(2, i)), s.mul(factor, gradient));
    const ValueId direction = mode == "standard" ? moment : s.add(gradient, s.scaled(alpha, moment));
    return {s.sub(s.tensor(0, i), s.mul(s.rate(dtype), direction)), moment};
  });
}

}  // namespace

std::vector<Importer> training_importers() {
  return {{"Adagrad", 1, kLatestOpset, import_adagrad, kTrainingDomain},
          {"Adam", 1, kLatestOpset, import_adam, kTrainingDomain},
          {"Momentum", 1, kLatestOpset, import_momentum, kTrainingDomain}};
}

}  // namespace lathe::onnx
