// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: mixtures of experts.
//
// A mixture is computed for all experts, and each row's sum has weights that are zero but for its chosen
// ones. That costs as many times more as there are experts per chosen one, which a note says.
#include "onnx/importers.h"
#include "onnx/microsoft/activation.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

class MixtureImport {
 public:
  explicit MixtureImport(NodeImport& node) : node_(node) {}

  Values run() {
    if (node_.integer("use_sparse_mixer", 0) != 0)
      throw_unsupported("its sparse mixer (use_sparse_mixer) is not supported");
    const Shape x = node_.shape(0);
    experts_ = node_.shape(kFirst)[0];
    rows_ = node_.shape(1)[0];
    const int64_t chosen = node_.integer("k", 1);
    node_.note("all of its " + experts_.to_string() + " experts are computed for each row, of which " +
               std::to_string(chosen) + " are needed");
    const ValueId rows = node_.reshape(node_.in(0), {1, rows_, x.back()}, "rows");
    const ValueId y = product(activated(rows), kSecond, "second");
    const ValueId weighted = node_.pointwise(C::Mul, {y, weights(chosen)}, "weighted");
    return {node_.reshape(node_.reduce(ReduceKind::Sum, weighted, {0}, false, "sum"), x, "")};
  }

 private:
  enum Input : size_t { kFirst = 2, kSecond = 4, kThird = 6 };  // each followed by its bias

  // x (1 or E, rows, D) with each expert's weight (E, H, D), plus its bias (E, H).
  ValueId product(ValueId x, size_t weight, const std::string& name) {
    const ValueId y = node_.add(MatMul{.transpose_b = true}, {x, node_.in(weight)}, name);
    if (!node_.has(weight + 1)) return y;
    const ValueId bias =
        node_.reshape(node_.in(weight + 1), {experts_, 1, node_.shape(weight + 1)[1]}, name + "_bias");
    return node_.pointwise(C::Add, {y, bias}, name + "_biased");
  }

  ValueId swiglu(ValueId gate, ValueId linear) {
    const float limit = node_.real("swiglu_limit", 0);
    const DType type = node_.dtype(0);
    if (node_.has_attribute("swiglu_limit")) {
      gate = node_.pointwise(C::Min, {gate, node_.scalar(limit, type)}, "gate_limit");
      linear = node_.pointwise(C::Min, {linear, node_.scalar(limit, type)}, "upper_limit");
      linear = node_.pointwise(C::Max, {linear, node_.scalar(-limit, type)}, "lower_limit");
    }
    gate = node_.pointwise(C::Silu, {gate}, node_.real("activation_alpha", 1), 0, "gate");
    const ValueId shifted =
        node_.pointwise(C::Add, {linear, node_.scalar(node_.real("activation_beta", 0), type)}, "linear");
    return node_.pointwise(C::Mul, {gate, shifted}, "gated");
  }

  ValueId activated(ValueId rows) {
    const ValueId first = product(rows, kFirst, "first");
    const std::string name = node_.text("activation_type", "relu");
    if (name == "swiglu") return fused_swiglu(first, rows);
    ValueId y = kNoValue;
    if (name == "relu") {
      y = node_.pointwise(C::Relu, {first}, "relu");
    } else if (name == "gelu") {
      y = node_.pointwise(C::GeluTanh, {first},
                          "gelu");  // ONNX Runtime's kernels take the approximation by tanh
    } else if (name == "silu") {
      y = node_.pointwise(C::Silu, {first}, 1, 0, "silu");
    } else if (name == "identity") {
      y = first;
    } else {
      node_.fail("activation_type is '" + name + "', not relu, gelu, silu, swiglu or identity");
    }
    return node_.has(kThird) ? node_.pointwise(C::Mul, {y, product(rows, kThird, "third")}, "gated") : y;
  }

  // Gate and linear part in two products, beside each other, or in turns.
  ValueId fused_swiglu(ValueId first, ValueId rows) {
    const int64_t fusion = node_.integer("swiglu_fusion", 0);
    if (fusion == 0) return swiglu(first, product(rows, kThird, "third"));
    const Dim width = node_.shape_of(first)[2];
    const auto half = width.exact_div(2);
    if (!half) node_.fail("the first weight has no halves");
    if (fusion == 2)
      return swiglu(node_.slice(first, 2, 0, *half, "gates"), node_.slice(first, 2, *half, width, "linears"));
    const auto every_second = [&](int64_t start, std::string_view name) {
      return node_.add(Slice{.starts = Shape{start}, .ends = Shape{width}, .axes = {2}, .steps = {2}},
                       {first}, name);
    };
    return swiglu(every_second(0, "gates"), every_second(1, "linears"));
  }

  // (E, rows, 1): the softmax of the router where an expert is among the first k of its row.
  ValueId weights(int64_t chosen) {
    const DType type = node_.dtype(0);
    const ValueId k = node_.constant(Tensor::from<int64_t>({1}, {chosen}), "k");
    const ValueId all = node_.add(Softmax{.axis = 1}, {node_.in(1)}, "probabilities");
    const Values top = node_.add_multi(TopK{.axis = 1}, {all, k}, 2, "chosen");
    ValueId values = top[0];
    if (node_.integer("normalize_routing_weights", 0) != 0) {
      const ValueId sum = node_.reduce(ReduceKind::Sum, values, {1}, true, "chosen_sum");
      values = node_.pointwise(C::Div, {values, sum}, "chosen_weights");
    }
    const ValueId zeros =
        node_.add(Fill{.shape = Shape{rows_, experts_}, .dtype = type, .value = 0}, {}, "no_weights");
    const ValueId dense = node_.add(ScatterElements{.axis = 1}, {zeros, top[1], values}, "weights");
    return node_.reshape(node_.transpose(dense, {1, 0}, "by_expert"), {experts_, rows_, 1}, "weight_column");
  }

  NodeImport& node_;
  Dim experts_, rows_;
};

Values import_mixture(NodeImport& node) {
  return MixtureImport(node).run();
}

}  // namespace

std::vector<Importer> microsoft_mixture_importers() {
  return {{"MoE", 1, kLatestOpset, import_mixture, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
