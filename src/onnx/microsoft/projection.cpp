// SPDX-License-Identifier: Apache-2.0
#include "onnx/microsoft/projection.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

constexpr float kMaskFilter = -10000;  // what ONNX Runtime adds to scores of masked keys

}  // namespace

Attended attend(NodeImport& node, const Parts& parts, bool wants_scores) {
  for (const ValueId past : {parts.past_k, parts.past_v})
    if (past != kNoValue && node.shape_of(past).size() != 4)
      node.fail("its past needs four dimensions (batch, heads, positions, width)");
  const Dim past = parts.past_k == kNoValue ? Dim(0) : node.shape_of(parts.past_k)[2];
  Attended result{.k = append_past(node, parts.past_k, parts.k, "present_key"),
                  .v = append_past(node, parts.past_v, parts.v, "present_value")};
  AttentionWriter writer(node, parts.q, result.k, result.v, node.real("scale", 0));
  if (parts.bias != kNoValue) writer.add_bias(parts.bias);
  if (parts.mask != kNoValue) writer.add_mask(parts.mask, node.real("mask_filter_value", kMaskFilter));
  if (parts.causal) writer.be_causal(past);
  result.y = wants_scores ? writer.write_scores() : writer.write();
  result.scores = writer.scores;
  return result;
}

Shape hidden_sizes(const NodeImport& node, const Dim& all) {
  if (const auto given = node.ints("qkv_hidden_sizes"); given && !given->empty()) {
    if (given->size() != 3) node.fail("qkv_hidden_sizes must be three numbers");
    const Shape sizes = {(*given)[0], (*given)[1], (*given)[2]};
    if (!(sizes[0] + sizes[1] + sizes[2] == all))
      node.fail("qkv_hidden_sizes add up to " + (sizes[0] + sizes[1] + sizes[2]).to_string() +
                " instead of the weight's " + all.to_string());
    return sizes;
  }
  const auto third = all.exact_div(3);
  if (!third) node.fail("the width of its weight, " + all.to_string() + ", does not divide into q, k and v");
  return {*third, *third, *third};
}

Rows project(NodeImport& node, ValueId x, const Dim& width, const WeightColumns& weights, ValueId bias) {
  const Shape sizes = hidden_sizes(node, width);
  Dim from = 0;
  const auto part = [&](const Dim& size, const std::string& name) {
    const Dim to = from + size;
    ValueId y = node.add(MatMul{}, {x, weights(from, to, name + "_weight")}, name);
    if (bias != kNoValue)
      y = node.pointwise(C::Add, {y, node.slice(bias, 0, from, to, name + "_bias")}, name + "_biased");
    from = to;
    return y;
  };
  Rows rows;
  rows.q = part(sizes[0], "q");
  rows.k = part(sizes[1], "k");
  rows.v = part(sizes[2], "v");
  return rows;
}

Rows project(NodeImport& node, ValueId x, ValueId weights, ValueId bias) {
  const Shape w = node.shape_of(weights);
  if (w.size() != 2) node.fail("its weight needs two dimensions");
  const auto columns = [&](const Dim& from, const Dim& to, const std::string& name) {
    return node.slice(weights, 1, from, to, name);
  };
  return project(node, x, w[1], columns, bias);
}

void split_heads(NodeImport& node, const Rows& rows, Parts& parts) {
  const int64_t heads = node.required_integer("num_heads");
  parts.q = to_heads(node, rows.q, heads, "q");
  parts.k = to_heads(node, rows.k, heads, "k");
  parts.v = to_heads(node, rows.v, heads, "v");
}

void read_joined_past(NodeImport& node, size_t input, Parts& parts) {
  if (!node.has(input)) return;
  const Shape s = node.shape(input);
  if (s.size() != 5) node.fail("past needs five dimensions");
  const auto part = [&](int64_t i, const std::string& name) {
    return node.reshape(node.slice(node.in(input), 0, i, i + 1, name + "_slice"), {s[1], s[2], s[3], s[4]},
                        name);
  };
  parts.past_k = part(0, "past_key");
  parts.past_v = part(1, "past_value");
}

ValueId joined_present(NodeImport& node, const Attended& a) {
  Shape s = node.shape_of(a.k);
  s.insert(s.begin(), Dim(1));
  if (!(node.shape_of(a.k) == node.shape_of(a.v)))
    node.fail("keys and values of other widths cannot be one present");
  return node.add(Concat{.axis = 0}, {node.reshape(a.k, s, "key_axis"), node.reshape(a.v, s, "value_axis")},
                  "present");
}

void refuse_shared_buffer(const NodeImport& node) {
  if (node.integer("past_present_share_buffer", 0) != 0)
    throw_unsupported(
        "past and present in one buffer (past_present_share_buffer) are not supported: leave the attribute "
        "out, so "
        "that present is past and the new positions");
}

void refuse_beams(const NodeImport& node, size_t cache_indirection) {
  if (node.has(cache_indirection))
    throw_unsupported(
        "caches that several beams share (cache_indirection) are not supported: search outside of the model");
}

void refuse_rotary(const NodeImport& node) {
  if (node.integer("do_rotary", 0) != 0)
    throw_unsupported("rotary embeddings inside of it (do_rotary) are not supported");
}

ValueId Biases::to_rows(ValueId rows, const std::string& name) {
  if (all_ == kNoValue) return rows;
  if (node_.shape_of(rows).empty())
    node_.fail("its rows need three dimensions (batch, sequence, heads times width)");
  return node_.pointwise(C::Add, {rows, next(node_.shape_of(rows).back(), name)}, name + "_biased");
}

ValueId Biases::to_heads(ValueId heads, const std::string& name) {
  if (all_ == kNoValue) return heads;
  const Shape s = node_.shape_of(heads);
  const ValueId part = node_.reshape(next(s[1] * s[3], name), {1, s[1], 1, s[3]}, name + "_bias_heads");
  return node_.pointwise(C::Add, {heads, part}, name + "_biased");
}

ValueId Biases::next(const Dim& size, const std::string& name) {
  const Dim from = from_;
  from_ = from_ + size;
  return node_.slice(all_, 0, from, from_, name + "_bias");
}

}  // namespace lathe::onnx
