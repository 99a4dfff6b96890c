// SPDX-License-Identifier: Apache-2.0
#include "onnx/microsoft/attention.h"

#include <cmath>
#include <limits>

#include "onnx/heads.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

ValueId number(NodeImport& node, double value, ValueId like) {
  return node.scalar(value, node.dtype_of(like));
}

}  // namespace

ValueId to_heads(NodeImport& node, ValueId rows, int64_t heads, const std::string& name) {
  const Shape s = node.shape_of(rows);
  if (s.size() != 3) node.fail(name + " needs three dimensions (batch, sequence, heads times width)");
  const auto width = heads < 1 ? std::nullopt : s[2].exact_div(heads);
  if (!width)
    node.fail("a width of " + s[2].to_string() + " is not made of " + std::to_string(heads) + " heads");
  return node.transpose(node.reshape(rows, {s[0], s[1], heads, *width}, name + "_heads"), {0, 2, 1, 3}, name);
}

ValueId append_past(NodeImport& node, ValueId past, ValueId now, std::string_view name) {
  return past == kNoValue ? now : node.add(Concat{.axis = 2}, {past, now}, name);
}

ValueId count_up(NodeImport& node, const Dim& n, Shape shape, const std::string& name) {
  const ValueId zero = node.scalar(0, DType::Int64), one = node.scalar(1, DType::Int64);
  return node.reshape(node.add(Range{}, {zero, node.dim_scalar(n), one}, name), std::move(shape),
                      name + "_axis");
}

AttentionWriter::AttentionWriter(NodeImport& node, ValueId q, ValueId k, ValueId v, float scale)
    : node_(node), q_(q), k_(k), v_(v), scale_(scale) {
  for (const ValueId heads : {q, k, v})
    if (node.shape_of(heads).size() != 4)
      node.fail("its heads need four dimensions (batch, heads, positions, width)");
  const Dim width = node.shape_of(q)[3];
  if (!width.is_constant()) throw_unsupported("the size of its heads is not constant");
  if (scale_ == 0) scale_ = 1 / std::sqrt(static_cast<float>(width.value()));
}

void AttentionWriter::add_bias(ValueId bias) {
  bias = node_.cast(bias, node_.dtype_of(q_), "bias_type");
  bias_ = bias_ == kNoValue ? bias : node_.pointwise(C::Add, {bias_, bias}, "biases");
}

void AttentionWriter::allow(ValueId condition) {
  allowed_ = allowed_ == kNoValue ? condition : node_.pointwise(C::And, {allowed_, condition}, "allowed");
}

ValueId AttentionWriter::keys(const std::string& name) {
  const Dim count = node_.shape_of(k_)[2];
  return count_up(node_, count, {1, 1, 1, count}, name);
}

// Keys from a start (0 when there is only one number per item of the batch) to an end.
ValueId AttentionWriter::mask_of_ends(ValueId mask, const Shape& shape) {
  const Dim batch = node_.shape_of(q_)[0];
  const ValueId numbers = node_.cast(mask, DType::Int64, "mask_numbers");
  const auto column = [&](const Dim& from, const std::string& name) {
    const ValueId part = shape[0] == batch ? numbers : node_.slice(numbers, 0, from, from + batch, name);
    return node_.reshape(part, {batch, 1, 1, 1}, name + "_column");
  };
  const ValueId key = keys("mask_keys");
  ValueId inside = node_.pointwise(C::Less, {key, column(0, "ends")}, "before_end");
  if (shape[0] == batch * 2) {
    const ValueId behind = node_.pointwise(C::GreaterOrEqual, {key, column(batch, "starts")}, "behind_start");
    inside = node_.pointwise(C::And, {inside, behind}, "between");
  }
  return inside;
}

void AttentionWriter::add_mask(ValueId mask, float filter) {
  const Shape shape = node_.shape_of(mask);
  const Dim queries = node_.shape_of(q_)[2], count = node_.shape_of(k_)[2];
  ValueId inside;
  if (shape.size() == 1) {
    inside = mask_of_ends(mask, shape);
  } else {
    const ValueId zero = node_.scalar(0, node_.dtype_of(mask));
    inside = node_.dtype_of(mask) == DType::Bool ? mask : node_.pointwise(C::Greater, {mask, zero}, "is_key");
    if (shape.size() == 2) {
      inside = node_.reshape(inside, {shape[0], 1, 1, shape[1]}, "mask_axes");
    } else if (shape.size() == 3) {
      inside = node_.reshape(inside, {shape[0], 1, shape[1], shape[2]}, "mask_axes");
    } else if (shape.size() == 4) {
      inside = node_.slice(inside, 2, count - queries, count, "mask_rows");
      inside = node_.slice(inside, 3, 0, count, "mask_columns");
    } else {
      node_.fail("its mask has " + std::to_string(shape.size()) + " dimensions");
    }
  }
  const ValueId out = number(node_, filter, q_);
  add_bias(node_.pointwise(C::Where, {inside, number(node_, 0, q_), out}, "mask"));
}

ValueId AttentionWriter::positions(ValueId past) {
  const Dim count = node_.shape_of(q_)[2];
  return node_.pointwise(C::Add, {count_up(node_, count, {1, 1, count, 1}, "queries"), past}, "positions");
}

void AttentionWriter::be_causal(const Dim& past) {
  const Shape q = node_.shape_of(q_), k = node_.shape_of(k_);
  if (q[2].is_constant(1)) return;  // the last position sees all
  if (past.is_constant(0) && q[2] == k[2]) {
    causal_ = true;
  } else {
    be_causal(node_.dim_scalar(past));
  }
}

void AttentionWriter::be_causal(ValueId past) {
  allow(node_.pointwise(C::LessOrEqual, {keys("causal_keys"), positions(past)}, "causal"));
}

void AttentionWriter::end_at(ValueId end) {
  allow(node_.pointwise(C::Less, {keys("used_keys"), end}, "used"));
}

void AttentionWriter::be_local(ValueId past, int64_t window) {
  const ValueId first = node_.scalar(static_cast<double>(window), DType::Int64);
  const ValueId start = node_.pointwise(C::Sub, {positions(past), first}, "window_start");
  allow(node_.pointwise(C::Greater, {keys("window_keys"), start}, "window"));
}

ValueId AttentionWriter::mask() {
  if (allowed_ == kNoValue) return bias_;
  if (bias_ == kNoValue) return allowed_;
  const ValueId out = number(node_, -std::numeric_limits<double>::infinity(), q_);
  return node_.pointwise(C::Where, {allowed_, bias_, out}, "masks");
}

ValueId AttentionWriter::rows(ValueId y) {
  const Shape s = node_.shape_of(y);
  const ValueId swapped = node_.transpose(y, {0, 2, 1, 3}, "y_transpose");
  return node_.reshape(swapped, {s[0], s[2], s[1] * s[3]}, "y");
}

ValueId AttentionWriter::write() {
  if (softcap != 0 || sink != kNoValue || smooth) return write_scores();
  k_ = repeat_heads(node_, k_, node_.shape_of(q_)[1], "k_repeat");
  v_ = repeat_heads(node_, v_, node_.shape_of(q_)[1], "v_repeat");
  return rows(node_.add(Attention{.scale = scale_, .causal = causal_}, {q_, k_, v_, mask()}));
}

// The softmax over one more score, whose weight is thrown away.
ValueId AttentionWriter::softmax_with_sink(ValueId biased) {
  if (sink == kNoValue && !smooth) return node_.add(Softmax{.axis = 3}, {biased}, "weights");
  Shape s = node_.shape_of(biased);
  const Dim count = s[3];
  const ValueId extra =
      sink == kNoValue ? number(node_, 0, q_) : node_.reshape(sink, {1, s[1], 1, 1}, "sink");
  s[3] = 1;
  const ValueId column = node_.expand(node_.cast(extra, node_.dtype_of(q_), "sink_type"), s, "sink_column");
  const ValueId all = node_.add(Concat{.axis = 3}, {biased, column}, "scores_and_sink");
  return node_.slice(node_.add(Softmax{.axis = 3}, {all}, "weights_and_sink"), 3, 0, count, "weights");
}

ValueId AttentionWriter::write_scores() {
  k_ = repeat_heads(node_, k_, node_.shape_of(q_)[1], "k_repeat");
  v_ = repeat_heads(node_, v_, node_.shape_of(q_)[1], "v_repeat");
  if (causal_) be_causal(node_.scalar(0, DType::Int64));
  const ValueId product = node_.add(MatMul{.transpose_b = true}, {q_, k_}, "scores");
  scores = node_.pointwise(C::Mul, {product, number(node_, scale_, q_)}, "scaled");
  if (softcap != 0) {
    const ValueId cap = number(node_, softcap, q_);
    const ValueId small =
        node_.pointwise(C::Tanh, {node_.pointwise(C::Div, {scores, cap}, "softcap_in")}, "softcap_tanh");
    scores = node_.pointwise(C::Mul, {small, cap}, "softcap");
  }
  if (bias_ != kNoValue) scores = node_.pointwise(C::Add, {scores, bias_}, "biased");
  if (allowed_ != kNoValue) {
    const ValueId out = number(node_, -std::numeric_limits<double>::infinity(), q_);
    scores = node_.pointwise(C::Where, {allowed_, scores, out}, "masked");
  }
  weights = softmax_with_sink(scores);
  return rows(node_.add(MatMul{}, {weights, v_}));
}

}  // namespace lathe::onnx
