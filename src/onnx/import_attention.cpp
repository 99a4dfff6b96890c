// SPDX-License-Identifier: Apache-2.0
//
// Attention (opset 23 on). It is the core operator whenever that can say it; softcap, score outputs, padded
// caches and windows are written out in products and a softmax.
//
// Heads: q has a multiple of the heads of k and v (grouped queries); k and v are repeated. Masks combine as
// an additive bias of 0 and -inf; a row in which nothing may be attended gives zeros.
#include <cmath>
#include <limits>

#include "onnx/heads.h"
#include "onnx/importers.h"

namespace lathe::onnx {

ValueId repeat_heads(NodeImport& node, ValueId value, const Dim& heads, const std::string& name) {
  const Shape s = node.shape_of(value);
  if (s[1] == heads) return value;
  const auto repeats = heads.exact_div(s[1]);
  if (!repeats)
    node.fail(heads.to_string() + " query heads are no multiple of " + s[1].to_string() + " key heads");
  const ValueId wide = node.expand(node.reshape(value, {s[0], s[1], 1, s[2], s[3]}, name + "_axis"),
                                   {s[0], s[1], *repeats, s[2], s[3]}, name);
  return node.reshape(wide, {s[0], heads, s[2], s[3]}, name + "_heads");
}

namespace {

using C = PointwiseCode;

class AttentionImport {
 public:
  explicit AttentionImport(NodeImport& node) : node_(node) {}

  Values run() {
    read_heads();
    append_past();
    const ValueId present_k = k_, present_v = v_;
    const Dim heads = node_.shape_of(q_)[1];
    k_ = repeat_heads(node_, k_, heads, "k_repeat");
    v_ = repeat_heads(node_, v_, heads, "v_repeat");
    Values results = simple() ? Values{core()} : written_out();
    if (flat_) {
      const Shape y = node_.shape_of(results[0]);
      const ValueId rows = node_.transpose(results[0], {0, 2, 1, 3}, "y_transpose");
      results[0] = node_.reshape(rows, {y[0], y[2], y[1] * y[3]}, "y");
    }
    results.insert(results.begin() + 1, {present_k, present_v});
    return results;
  }

 private:
  // (B, S, H * D) to (B, H, S, D).
  ValueId to_heads(size_t input, int64_t heads, const std::string& name) {
    const Shape s = node_.shape(input);
    if (s.size() == 4) return node_.in(input);
    if (s.size() != 3) node_.fail("q, k and v need three or four dimensions");
    if (heads < 1) node_.fail("three-dimensional inputs need q_num_heads and kv_num_heads");
    const auto width = s[2].exact_div(heads);
    if (!width)
      node_.fail("a width of " + s[2].to_string() + " is not made of " + std::to_string(heads) + " heads");
    return node_.transpose(node_.reshape(node_.in(input), {s[0], s[1], heads, *width}, name + "_heads"),
                           {0, 2, 1, 3}, name);
  }

  void read_heads() {
    flat_ = node_.rank(0) == 3;
    const int64_t kv_heads = node_.integer("kv_num_heads", 0);
    q_ = to_heads(0, node_.integer("q_num_heads", 0), "q");
    k_ = to_heads(1, kv_heads, "k");
    v_ = to_heads(2, kv_heads, "v");
    const Shape q = node_.shape_of(q_);
    if (!q[3].is_constant()) throw_unsupported("the size of its heads is not constant");
    scale_ = node_.real("scale", 1 / std::sqrt(static_cast<float>(q[3].value())));
  }

  void append_past() {
    if (!node_.has(4)) return;
    past_ = node_.shape(4)[2];
    k_ = node_.add(Concat{.axis = 2}, {node_.in(4), k_}, "present_key");
    v_ = node_.add(Concat{.axis = 2}, {node_.in(5), v_}, "present_value");
  }

  bool causal() const { return node_.integer("is_causal", 0) != 0; }
  bool windowed() const {
    return node_.integer("left_window_size", -1) >= 0 || node_.integer("right_window_size", -1) >= 0;
  }

  bool mask_is_short() const {
    if (!node_.has(3) || node_.rank(3) == 0) return false;
    const Dim keys = node_.shape(3).back();
    return !(keys == node_.shape_of(k_)[2]) && !keys.is_constant(1);
  }

  bool simple() const {
    return node_.real("softcap", 0) == 0 && !node_.wants_output(3) && !node_.has(6) && !windowed() &&
           !mask_is_short() && !(causal() && node_.has(4));
  }

  ValueId core() {
    return node_.add(Attention{.scale = scale_, .causal = causal()}, {q_, k_, v_, node_.in_or_none(3)});
  }

  ValueId binary(C code, ValueId a, ValueId b, std::string_view name) {
    return node_.pointwise(code, {a, b}, 0, 0, name);
  }
  ValueId number(double value) { return node_.scalar(value, node_.dtype(0)); }
  ValueId forbidden() { return number(-std::numeric_limits<double>::infinity()); }

  // 0 where `allowed`, else -inf, added to the bias so far.
  void restrict(ValueId allowed, const std::string& name) {
    const ValueId bias = node_.pointwise(C::Where, {allowed, number(0), forbidden()}, 0, 0, name);
    bias_ = bias_ == kNoValue ? bias : binary(C::Add, bias_, bias, name + "_add");
  }

  // 0 .. n-1 as int64 in a tensor of `shape`.
  ValueId count_up(const Dim& n, Shape shape, const std::string& name) {
    const ValueId zero = node_.scalar(0, DType::Int64), one = node_.scalar(1, DType::Int64);
    return node_.reshape(node_.add(Range{}, {zero, node_.dim_scalar(n), one}, name), std::move(shape),
                         name + "_column");
  }

  void add_mask() {
    if (!node_.has(3)) return;
    ValueId mask = node_.in(3);
    const bool boolean = node_.dtype(3) == DType::Bool;
    if (mask_is_short()) {
      const int64_t rank = node_.rank(3);
      Shape pads(static_cast<size_t>(2 * rank), Dim(0));
      pads.back() = node_.shape_of(k_)[2] - node_.shape(3).back();
      const ValueId value = boolean ? node_.constant(Tensor::from<bool>({}, {false})) : forbidden();
      mask = node_.add(Pad{.pads = pads}, {mask, kNoValue, value}, "mask_pad");
    }
    if (boolean) return restrict(mask, "mask");
    bias_ = node_.cast(mask, node_.dtype(0), "mask");
  }

  // What depends on the distance of a query's position (its row, plus what came before) from a key's.
  void add_positions() {
    if (!causal() && !windowed()) return;
    const Dim rows = node_.shape_of(q_)[2], columns = node_.shape_of(k_)[2];
    ValueId row = count_up(rows, {rows, 1}, "rows");
    if (node_.has(6) && !node_.has(4)) {
      const Dim batch = node_.shape(6)[0];
      const ValueId valid = node_.reshape(node_.cast(node_.in(6), DType::Int64), {batch, 1, 1, 1}, "valid");
      row = binary(C::Add, row, binary(C::Sub, valid, node_.dim_scalar(rows), "valid_offset"), "row_offset");
    } else if (!past_.is_constant(0)) {
      row = binary(C::Add, row, node_.dim_scalar(past_), "row_offset");
    }
    const ValueId behind = binary(C::Sub, row, count_up(columns, {1, columns}, "columns"), "behind");
    if (causal())
      restrict(binary(C::GreaterOrEqual, behind, node_.scalar(0, DType::Int64), "is_past"), "causal");
    const int64_t left = node_.integer("left_window_size", -1),
                  right = node_.integer("right_window_size", -1);
    if (left >= 0) {
      restrict(
          binary(C::LessOrEqual, behind, node_.scalar(static_cast<double>(left), DType::Int64), "in_left"),
          "left");
    }
    if (right >= 0) {
      restrict(binary(C::GreaterOrEqual, behind, node_.scalar(-static_cast<double>(right), DType::Int64),
                      "in_right"),
               "right");
    }
  }

  void add_padding() {
    if (!node_.has(6)) return;
    const Dim columns = node_.shape_of(k_)[2];
    const ValueId valid =
        node_.reshape(node_.cast(node_.in(6), DType::Int64), {node_.shape(6)[0], 1, 1, 1}, "nonpad");
    restrict(binary(C::Less, count_up(columns, {1, columns}, "keys"), valid, "is_key"), "padding");
  }

  Values written_out() {
    const ValueId root = number(std::sqrt(scale_));
    const ValueId kt = node_.transpose(binary(C::Mul, k_, root, "k_scaled"), {0, 1, 3, 2}, "k_transposed");
    ValueId raw = node_.add(MatMul{}, {binary(C::Mul, q_, root, "q_scaled"), kt}, "scores");
    const double softcap = node_.real("softcap", 0);
    ValueId capped = raw;
    if (softcap > 0) {
      const ValueId small = node_.pointwise(C::Tanh, {binary(C::Div, raw, number(softcap), "softcap_in")}, 0,
                                            0, "softcap_tanh");
      capped = binary(C::Mul, small, number(softcap), "softcap");
    }
    add_mask();
    add_positions();
    add_padding();
    const ValueId biased = bias_ == kNoValue ? capped : binary(C::Add, capped, bias_, "biased");
    ValueId weights = node_.add(Softmax{.axis = 3}, {biased}, "weights");
    if (bias_ != kNoValue) {
      const ValueId highest = node_.reduce(ReduceKind::Max, bias_, {-1}, true, "highest");
      const ValueId nothing = binary(C::Equal, highest, forbidden(), "nothing_allowed");
      weights = node_.pointwise(C::Where, {nothing, number(0), weights}, 0, 0, "weights_or_zero");
    }
    const ValueId y = node_.add(MatMul{}, {weights, v_});
    return {y, score_output(raw, capped, biased, weights)};
  }

  // The optional output: at which step the scores are shown.
  ValueId score_output(ValueId raw, ValueId capped, ValueId biased, ValueId weights) const {
    switch (node_.integer("qk_matmul_output_mode", 0)) {
      case 0:
        return raw;
      case 1:
        return capped;
      case 2:
        return biased;
      case 3:
        return weights;
      default:
        node_.fail("qk_matmul_output_mode is not 0, 1, 2 or 3");
    }
  }

  NodeImport& node_;
  ValueId q_ = kNoValue, k_ = kNoValue, v_ = kNoValue, bias_ = kNoValue;
  Dim past_;
  bool flat_ = false;
  float scale_ = 1;
};

Values import_attention(NodeImport& node) {
  return AttentionImport(node).run();
}

}  // namespace

std::vector<Importer> attention_importers() {
  return {{"Attention", 23, kLatestOpset, import_attention}};
}

}  // namespace lathe::onnx
