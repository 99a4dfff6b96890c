// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: mixtures of experts.
//
// A mixture is computed for all experts, and each row's sum has weights that are zero but for its chosen
// ones. That costs as many times more as there are experts per chosen one, which a note says.
#include "onnx/importers.h"
#include "onnx/microsoft/activation.h"
#include "onnx/microsoft/bits.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// What of a mixture differs between weights of floats and of a few bits.
struct Mixture {
  struct Product {
    ValueId weight = kNoValue, bias = kNoValue;  // (E, H, D) and (E, H)
  };
  Product first, second, third;
  ValueId mixing = kNoValue;  // weights of the experts (rows, E), when those that choose them are others
  bool always_normalized = false;
};

class MixtureImport {
 public:
  MixtureImport(NodeImport& node, const Mixture& mixture) : node_(node), mixture_(mixture) {}

  Values run() {
    if (node_.integer("use_sparse_mixer", 0) != 0)
      throw_unsupported("its sparse mixer (use_sparse_mixer) is not supported");
    const Shape x = node_.shape(0);
    if (x.size() < 2 || node_.rank(1) != 2) node_.fail("it takes rows and a number per row and expert");
    experts_ = node_.shape_of(mixture_.first.weight)[0];
    rows_ = node_.shape(1)[0];
    const int64_t chosen = node_.integer("k", 1);
    node_.note("all of its " + experts_.to_string() + " experts are computed for each row, of which " +
               std::to_string(chosen) + " are needed");
    const ValueId rows = node_.reshape(node_.in(0), {1, rows_, x.back()}, "rows");
    const ValueId y = product(activated(rows), mixture_.second, "second");
    const ValueId weighted = node_.pointwise(C::Mul, {y, weights(chosen)}, "weighted");
    return {node_.reshape(node_.reduce(ReduceKind::Sum, weighted, {0}, false, "sum"), x, "")};
  }

 private:
  // x (1 or E, rows, D) with each expert's weight (E, H, D), plus its bias (E, H).
  ValueId product(ValueId x, const Mixture::Product& part, const std::string& name) {
    if (part.weight == kNoValue) node_.fail("the weights of its " + name + " product are missing");
    const ValueId y = node_.add(MatMul{.transpose_b = true}, {x, part.weight}, name);
    if (part.bias == kNoValue) return y;
    const Shape s = node_.shape_of(part.bias);
    if (s.size() != 2) node_.fail("the bias of its " + name + " product needs two dimensions");
    const ValueId bias = node_.reshape(part.bias, {experts_, 1, s[1]}, name + "_bias");
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
    const ValueId first = product(rows, mixture_.first, "first");
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
    if (mixture_.third.weight == kNoValue) return y;
    return node_.pointwise(C::Mul, {y, product(rows, mixture_.third, "third")}, "gated");
  }

  // Gate and linear part in two products, beside each other, or in turns.
  ValueId fused_swiglu(ValueId first, ValueId rows) {
    const int64_t fusion = node_.integer("swiglu_fusion", 0);
    if (fusion == 0) return swiglu(first, product(rows, mixture_.third, "third"));
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

  // (E, rows, 1): the softmax of the router, or the mixing weights, where an expert is among the first k of
  // its row.
  ValueId weights(int64_t chosen) {
    const DType type = node_.dtype(0);
    const ValueId k = node_.constant(Tensor::from<int64_t>({1}, {chosen}), "k");
    const bool mixes = mixture_.mixing != kNoValue;
    const ValueId all = mixes ? node_.in(1) : node_.add(Softmax{.axis = 1}, {node_.in(1)}, "probabilities");
    const Values top = node_.add_multi(TopK{.axis = 1}, {all, k}, 2, "chosen");
    ValueId values = top[0];
    if (mixes) values = node_.add(GatherElements{.axis = 1}, {mixture_.mixing, top[1]}, "mixing");
    const bool normalizes = node_.integer("normalize_routing_weights", 0) != 0;
    if (normalizes || (mixture_.always_normalized && !mixes)) {
      const ValueId sum = node_.reduce(ReduceKind::Sum, values, {1}, true, "chosen_sum");
      values = node_.pointwise(C::Div, {values, sum}, "chosen_weights");
    }
    const ValueId zeros =
        node_.add(Fill{.shape = Shape{rows_, experts_}, .dtype = type, .value = 0}, {}, "no_weights");
    const ValueId dense = node_.add(ScatterElements{.axis = 1}, {zeros, top[1], values}, "weights");
    return node_.reshape(node_.transpose(dense, {1, 0}, "by_expert"), {experts_, rows_, 1}, "weight_column");
  }

  NodeImport& node_;
  const Mixture mixture_;
  Dim experts_, rows_;
};

// inputs: x (..., D), router (rows, E), weights of the first product (E, H, D), [its bias], weights of the
// second product (E, D, H), [bias], [weights of the third one, which gates the first], [bias]
Values import_mixture(NodeImport& node) {
  const auto product = [&](size_t weight) {
    if (node.has(weight) && node.rank(weight) != 3) node.fail("its weights need three dimensions");
    return Mixture::Product{node.in_or_none(weight), node.in_or_none(weight + 1)};
  };
  node.in(2), node.in(4);  // these must be there
  return MixtureImport(node, {.first = product(2), .second = product(4), .third = product(6)}).run();
}

// --- the same with weights of a few bits. inputs: x, router, weights, scales, [bias] of the first, second
// and [third] product, their [zero points], [mixing weights]
class QuantizedMixture {
 public:
  explicit QuantizedMixture(NodeImport& node) : node_(node) {}

  Mixture read() {
    if (const std::string type = node_.text("quant_type", "int"); type != "int")
      throw_unsupported("weights of quant_type '" + type + "' are not supported, only int");
    if (node_.integer("weights_prepacked", -1) == 1)
      throw_unsupported(
          "weights in the order of one accelerator (weights_prepacked) are not supported; leave them as they "
          "are "
          "quantised");
    if (node_.has_attribute("block_size")) block_ = node_.integer("block_size", 0);
    if (block_ < 0) node_.fail("block_size is " + std::to_string(block_));
    // ONNX Runtime's CPU takes the softmax over the chosen experts alone, whatever normalize_routing_weights
    // says.
    Mixture mixture{.mixing = node_.in_or_none(14), .always_normalized = true};
    mixture.first = product(2, 11, "fc1");
    mixture.second = product(5, 12, "fc2");
    if (node_.has(8)) mixture.third = product(8, 13, "fc3");
    return mixture;
  }

 private:
  Mixture::Product product(size_t weight, size_t zero, const std::string& name) {
    return {dequantized(weight, zero, name), node_.in_or_none(weight + 2)};
  }

  // Bytes (E, N, bytes of K) with a scale per row, or per block of a row, to numbers (E, N, K).
  ValueId dequantized(size_t weight, size_t zero, const std::string& name) {
    const std::string attribute = name + "_expert_weight_bits";
    const bool own = node_.has_attribute(attribute);
    const int64_t bits = own ? node_.integer(attribute, 4) : node_.integer("expert_weight_bits", 4);
    const DType type = type_of_bits(node_, bits, own ? attribute : "expert_weight_bits");
    node_.in(weight), node_.in(weight + 1);  // these must be there
    const Tensor packed = node_.constant(weight);
    if (!packed) throw_unsupported("its weights depend on an input; they must be constant");
    if (packed.dtype() != DType::UInt8 || packed.rank() != 3 || packed.size() < 1 ||
        packed.size() > kMostWeights)
      node_.fail("the weights of " + name + " must be bytes (experts, rows, bytes of a row)");
    const int64_t experts = packed.extents()[0], rows = packed.extents()[1],
                  length = packed.extents()[2] * (8 / bits);
    const int64_t block = block_ == 0 ? length : block_;
    if (length % block != 0)
      node_.fail("the rows of " + name + " have " + std::to_string(length) +
                 " weights, no multiple of block_size " + std::to_string(block));
    const int64_t blocks = length / block;
    const Extents each = {experts, rows, blocks};
    const Shape scales = node_.shape(weight + 1);
    if (!is_static(scales) || element_count(to_extents(scales)) != experts * rows * blocks)
      node_.fail("the scales of " + name + " have shape " + to_string(scales) + ", expected " +
                 to_string(each));
    const ValueId scale =
        node_.cast(node_.reshape(node_.in(weight + 1), to_shape(each), name + "_scale_axes"), node_.dtype(0),
                   name + "_scales");
    const ValueId codes = node_.constant(
        unpacked_bits(packed, type, experts * rows, length, {experts, rows, length}), name + "_codes");
    return node_.add(DequantizeLinear{.axis = 2, .block_size = block, .to = node_.dtype(0)},
                     {codes, scale, zeros(zero, type, each, name)}, name + "_weights");
  }

  ValueId zeros(size_t input, DType type, const Extents& each, const std::string& name) {
    if (!node_.has(input)) return node_.constant(middle_of_bits(type, each), name + "_middle");
    const Tensor packed = node_.constant(input);
    if (!packed || packed.dtype() != DType::UInt8)
      throw_unsupported("its zero points are no constants of uint8; export with packed zero points");
    const int64_t experts = each[0], per_byte = 8 / dtype_info(type).bits;
    // Without blocks the zero points of an expert's rows lie together; else those of a row's blocks do.
    const int64_t groups = block_ == 0 ? experts : experts * each[1];
    const int64_t count = block_ == 0 ? each[1] : each[2];
    const int64_t bytes = groups * ((count + per_byte - 1) / per_byte);
    if (packed.size() != bytes)
      node_.fail(name + " has " + std::to_string(packed.size()) + " bytes of zero points, expected " +
                 std::to_string(bytes));
    return node_.constant(unpacked_bits(packed, type, groups, count, each), name + "_zeros");
  }

  NodeImport& node_;
  int64_t block_ = 0;  // 0: a row has one scale
};

Values import_quantized_mixture(NodeImport& node) {
  return MixtureImport(node, QuantizedMixture(node).read()).run();
}

}  // namespace

std::vector<Importer> microsoft_mixture_importers() {
  return {{"MoE", 1, kLatestOpset, import_mixture, kMicrosoftDomain},
          {"QMoE", 1, kLatestOpset, import_quantized_mixture, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
