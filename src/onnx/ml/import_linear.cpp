// SPDX-License-Identifier: Apache-2.0
//
// ai.onnx.ml: linear models and support vector machines. Kernels of support vectors are one product of the
// rows with all vectors.
#include <algorithm>

#include "onnx/importers.h"
#include "onnx/ml/scores.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;
using Floats = std::vector<float>;

Floats required_floats(const NodeImport& node, std::string_view name) {
  auto values = node.reals(name);
  if (!values || values->empty()) node.fail("attribute '" + std::string(name) + "' is missing");
  return *values;
}

// x (N, F) times coefficients (K, F), plus intercepts (K).
ValueId linear(NodeImport& node, ValueId x, int64_t outputs) {
  const Floats coefficients = required_floats(node, "coefficients");
  const auto count = static_cast<int64_t>(coefficients.size());
  if (outputs < 1 || count % outputs != 0)
    node.fail("its " + std::to_string(count) + " coefficients do not divide into " + std::to_string(outputs) +
              " rows");
  const ValueId w = float_constant(node, coefficients, {outputs, count / outputs}, "coefficients");
  const ValueId y = node.add(MatMul{.transpose_b = true}, {x, w}, "product");
  const Floats intercepts = node.reals("intercepts").value_or(Floats());
  if (intercepts.empty()) return y;
  return node.pointwise(C::Add, {y, float_constant(node, intercepts, {1, outputs}, "intercepts")}, "scores");
}

Values import_linear_regressor(NodeImport& node) {
  const ValueId x = as_rows(node, as_float(node, 0));
  return {transform_scores(node, linear(node, x, node.integer("targets", 1)), post_transform(node))};
}

// The label of the highest score. One score for two labels says yes above zero.
Values import_linear_classifier(NodeImport& node) {
  const Ints labels = class_labels(node);
  const auto classes = static_cast<int64_t>(labels.size());
  const ValueId x = as_rows(node, as_float(node, 0));
  const auto width = node.shape_of(x)[1];
  const auto coefficients = static_cast<int64_t>(required_floats(node, "coefficients").size());
  const bool single = width.is_constant() && width.value() == coefficients;
  const ValueId scores = linear(node, x, single ? 1 : classes);
  const std::string post = post_transform(node);
  if (!single || classes == 1) {
    const ValueId best = node.add(ArgReduce{.max = true, .axis = 1, .keepdims = false}, {scores}, "best");
    return {labels_at(node, best, labels), transform_scores(node, scores, post)};
  }
  if (classes != 2) node.fail("it has one score for " + std::to_string(classes) + " labels");
  const ValueId yes = node.pointwise(C::Greater, {scores, node.scalar(0, DType::Float32)}, "yes");
  return {label_choice(node, yes, labels[1], labels[0]), transform_binary(node, scores, false, post)};
}

// Support vectors (V, F) and how rows compare with them.
class Kernel {
 public:
  Kernel(NodeImport& node, int64_t vectors) : node_(node) {
    const Floats all = required_floats(node, "support_vectors"),
                 parameters = node.reals("kernel_params").value_or(Floats());
    const auto count = static_cast<int64_t>(all.size());
    if (vectors < 1 || count % vectors != 0)
      node.fail("its " + std::to_string(count) + " numbers of support vectors do not divide into " +
                std::to_string(vectors));
    vectors_ = float_constant(node, all, {vectors, count / vectors}, "support_vectors");
    for (size_t i = 0; i < std::min<size_t>(parameters.size(), 3); ++i) parameters_[i] = parameters[i];
  }

  // (N, V)
  ValueId operator()(ValueId x) {
    const std::string kind = node_.text("kernel_type", "LINEAR");
    const ValueId product = node_.add(MatMul{.transpose_b = true}, {x, vectors_}, "products");
    if (kind == "LINEAR") return product;
    if (kind == "RBF") return gaussian(x, product);
    const ValueId shifted = binary(C::Add, binary(C::Mul, product, number(parameters_[0]), "gamma"),
                                   number(parameters_[1]), "shifted");
    if (kind == "POLY") return binary(C::Pow, shifted, number(parameters_[2]), "polynomial");
    if (kind == "SIGMOID") return node_.pointwise(C::Tanh, {shifted}, "sigmoid");
    node_.fail("kernel_type is '" + kind + "', not LINEAR, POLY, RBF or SIGMOID");
  }

 private:
  ValueId number(double value) { return node_.scalar(value, DType::Float32); }
  ValueId binary(C code, ValueId a, ValueId b, std::string_view name) {
    return node_.pointwise(code, {a, b}, name);
  }

  // exp(-gamma |x - v|^2)
  ValueId gaussian(ValueId x, ValueId product) {
    const Shape rows = node_.shape_of(x), vectors = node_.shape_of(vectors_);
    const auto lengths = [&](ValueId v, Shape shape, std::string_view name) {
      return node_.reshape(node_.reduce(ReduceKind::SumSquare, v, {1}, false, name), std::move(shape), name);
    };
    const ValueId sum = binary(C::Add, lengths(x, {rows[0], 1}, "row_squares"),
                               lengths(vectors_, {1, vectors[0]}, "vector_squares"), "squares");
    const ValueId distance = binary(C::Sub, sum, binary(C::Mul, product, number(2), "twice"), "distance");
    return node_.pointwise(C::Exp,
                           {binary(C::Mul, node_.pointwise(C::Relu, {distance}, "distances"),
                                   number(-parameters_[0]), "exponent")},
                           "kernel");
  }

  NodeImport& node_;
  ValueId vectors_ = kNoValue;
  std::array<double, 3> parameters_ = {0, 0, 3};  // gamma, the constant, degree
};

Values import_svm_regressor(NodeImport& node) {
  const ValueId x = as_rows(node, as_float(node, 0));
  const int64_t vectors = node.integer("n_supports", 0);
  const Floats coefficients = required_floats(node, "coefficients"), rho = required_floats(node, "rho");
  const ValueId kernel = vectors > 0 ? Kernel(node, vectors)(x) : x;
  const ValueId w =
      float_constant(node, coefficients, {static_cast<int64_t>(coefficients.size()), 1}, "coefficients");
  const ValueId sum = node.pointwise(
      C::Add, {node.add(MatMul{}, {kernel, w}, "sum"), node.scalar(rho[0], DType::Float32)}, "score");
  if (node.integer("one_class", 0) == 0) return {transform_scores(node, sum, post_transform(node))};
  const auto number = [&](double value) { return node.scalar(value, DType::Float32); };
  const ValueId inside = node.pointwise(C::Greater, {sum, number(0)}, "inside");
  return {node.pointwise(C::Where, {inside, number(1), number(-1)}, "side")};
}

// One score per pair of classes, and a vote for one of the two; or without support vectors one score per
// class.
class SupportVectorClassifier {
 public:
  explicit SupportVectorClassifier(NodeImport& node)
      : node_(node),
        labels_(class_labels(node)),
        classes_(static_cast<int64_t>(labels_.size())),
        counts_(node.ints("vectors_per_class").value_or(Ints())) {}

  Values run() {
    const ValueId x = as_rows(node_, as_float(node_, 0));
    int64_t vectors = 0;
    for (const int64_t n : counts_) {
      if (n < 0 || n > (int64_t{1} << 31)) node_.fail("a class has " + std::to_string(n) + " vectors");
      vectors += n;
    }
    if (vectors == 0) return without_vectors(x);
    if (classes_ < 2) node_.fail("it has one class label");
    if (static_cast<int64_t>(counts_.size()) != classes_)
      node_.fail("vectors_per_class has not one number per class");
    const Floats probabilities = node_.reals("prob_a").value_or(Floats());
    if (!probabilities.empty() && classes_ > 2)
      throw_unsupported(
          "its probabilities for more than two classes (prob_a) are found by an iteration, which is not "
          "supported; convert without probabilities");
    const ValueId scores =
        node_.pointwise(C::Add,
                        {node_.add(MatMul{}, {Kernel(node_, vectors)(x), pair_weights(vectors)}, "sums"),
                         float_constant(node_, pairs_of_rho(), {1, pairs()}, "rho")},
                        "scores");
    if (classes_ == 2)
      return probabilities.empty() ? two_classes(scores) : two_probabilities(scores, probabilities);
    const ValueId best =
        node_.add(ArgReduce{.max = true, .axis = 1, .keepdims = false}, {votes(scores)}, "best");
    return {labels_at(node_, best, labels_), transform_scores(node_, scores, post_transform(node_))};
  }

 private:
  int64_t pairs() const { return classes_ * (classes_ - 1) / 2; }

  Floats pairs_of_rho() const {
    Floats rho = required_floats(node_, "rho");
    if (static_cast<int64_t>(rho.size()) < pairs()) node_.fail("rho has not one number per pair of classes");
    rho.resize(static_cast<size_t>(pairs()));
    return rho;
  }

  // (V, pairs): the coefficients (classes - 1, V) of the pair's vectors, 0 for all others.
  ValueId pair_weights(int64_t vectors) {
    const Floats all = required_floats(node_, "coefficients");
    if (static_cast<int64_t>(all.size()) != (classes_ - 1) * vectors)
      node_.fail("coefficients are not classes - 1 rows of one per vector");
    Floats weights(static_cast<size_t>(vectors * pairs()));
    int64_t pair = 0, first_i = 0;
    for (int64_t i = 0; i < classes_; ++i) {
      int64_t first_j = first_i + counts_[static_cast<size_t>(i)];
      for (int64_t j = i + 1; j < classes_; ++j, ++pair) {
        const auto copy = [&](int64_t row, int64_t from, int64_t count) {
          for (int64_t v = from; v < from + count; ++v)
            weights[static_cast<size_t>(v * pairs() + pair)] = all[static_cast<size_t>(row * vectors + v)];
        };
        copy(j - 1, first_i, counts_[static_cast<size_t>(i)]);
        copy(i, first_j, counts_[static_cast<size_t>(j)]);
        first_j += counts_[static_cast<size_t>(j)];
      }
      first_i += counts_[static_cast<size_t>(i)];
    }
    return float_constant(node_, weights, {vectors, pairs()}, "pair_weights");
  }

  // (N, classes): how many pairs each class wins.
  ValueId votes(ValueId scores) {
    Floats for_first(static_cast<size_t>(pairs() * classes_)), for_second = for_first;
    int64_t pair = 0;
    for (int64_t i = 0; i < classes_; ++i)
      for (int64_t j = i + 1; j < classes_; ++j, ++pair) {
        for_first[static_cast<size_t>(pair * classes_ + i)] = 1;
        for_second[static_cast<size_t>(pair * classes_ + j)] = 1;
      }
    const ValueId first =
        node_.cast(node_.pointwise(C::Greater, {scores, number(0)}, "first_wins"), DType::Float32, "wins");
    const ValueId second = node_.pointwise(C::Sub, {number(1), first}, "losses");
    const auto count = [&](ValueId wins, const Floats& table, std::string_view name) {
      return node_.add(MatMul{}, {wins, float_constant(node_, table, {pairs(), classes_}, name)}, "votes");
    };
    return node_.pointwise(
        C::Add, {count(first, for_first, "first_of_pair"), count(second, for_second, "second_of_pair")},
        "all_votes");
  }

  ValueId number(double value) { return node_.scalar(value, DType::Float32); }

  ValueId pair_label(ValueId score) {
    const ValueId first = node_.pointwise(C::Greater, {score, number(0)}, "is_first");
    return label_choice(node_, first, labels_[0], labels_[1]);
  }

  // The first class wins above zero, and yet the score is the second class's: so do ONNX's reference
  // implementation and ONNX Runtime, and converters turn the signs of coefficients and labels to fit.
  Values two_classes(ValueId score) {
    const std::string post = post_transform(node_);
    return {pair_label(score), transform_binary(node_, score, post == "NONE", post)};
  }

  // The label is that of the votes: the probabilities may say another.
  Values two_probabilities(ValueId score, const Floats& a) {
    const Floats b = required_floats(node_, "prob_b");
    const ValueId scaled = node_.pointwise(C::Mul, {score, number(a[0])}, "scaled");
    const ValueId exponent = node_.pointwise(C::Add, {scaled, number(b[0])}, "exponent");
    const ValueId raw =
        node_.pointwise(C::Sigmoid, {node_.pointwise(C::Neg, {exponent}, "minus_exponent")}, "probability");
    const ValueId first = node_.pointwise(C::Clip, {raw}, 1e-7f, 1 - 1e-7f, "first_probability");
    const ValueId second = node_.pointwise(C::Sub, {number(1), first}, "second_probability");
    const ValueId both = node_.add(Concat{.axis = 1}, {first, second}, "probabilities");
    return {pair_label(score), transform_scores(node_, both, post_transform(node_))};
  }

  Values without_vectors(ValueId x) {
    const Floats coefficients = required_floats(node_, "coefficients"), rho = required_floats(node_, "rho");
    const auto count = static_cast<int64_t>(coefficients.size());
    if (count % classes_ != 0) node_.fail("its coefficients do not divide into one row per class");
    const ValueId w = float_constant(node_, coefficients, {classes_, count / classes_}, "coefficients");
    const ValueId scores = node_.pointwise(
        C::Add, {node_.add(MatMul{.transpose_b = true}, {x, w}, "product"), number(rho[0])}, "scores");
    const ValueId best = node_.add(ArgReduce{.max = true, .axis = 1, .keepdims = false}, {scores}, "best");
    return {labels_at(node_, best, labels_), transform_scores(node_, scores, post_transform(node_))};
  }

  NodeImport& node_;
  Ints labels_;
  int64_t classes_;
  Ints counts_;
};

Values import_svm_classifier(NodeImport& node) {
  return SupportVectorClassifier(node).run();
}

}  // namespace

std::vector<Importer> ml_linear_importers() {
  return {{"LinearClassifier", 1, kLatestOpset, classify<import_linear_classifier>, kMlDomain},
          {"LinearRegressor", 1, kLatestOpset, import_linear_regressor, kMlDomain},
          {"SVMClassifier", 1, kLatestOpset, classify<import_svm_classifier>, kMlDomain},
          {"SVMRegressor", 1, kLatestOpset, import_svm_regressor, kMlDomain}};
}

}  // namespace lathe::onnx
