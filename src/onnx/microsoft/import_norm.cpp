// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: normalizations with a residual and a bias in front, embeddings in front, or an activation
// behind.
#include "onnx/importers.h"
#include "onnx/microsoft/activation.h"
#include "onnx/microsoft/layout.h"
#include "onnx/quantized.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// outputs: y, mean, inverse deviation, the sum that was normalized
Values normalized_sum(NodeImport& node, ValueId sum, const LayerNorm& op, ValueId scale, ValueId bias) {
  const bool statistics = node.wants_output(1) || node.wants_output(2);
  Values results = node.add_multi(op, {sum, scale, bias}, statistics ? 3 : 1);
  results.resize(3, kNoValue);
  results.push_back(sum);
  return results;
}

// inputs: x, residual, scale, [shift], [bias]
Values import_skip_layer_norm(NodeImport& node) {
  ValueId sum = node.pointwise(C::Add, {node.in(0), node.in(1)}, "sum");
  sum = add_optional(node, sum, node.in_or_none(4), "bias");
  return normalized_sum(node, sum, {.axis = -1, .epsilon = node.real("epsilon", 1e-12f)}, node.in(2),
                        node.in_or_none(3));
}

// inputs: x, residual, scale, [bias]
Values import_skip_rms_norm(NodeImport& node) {
  ValueId sum = node.pointwise(C::Add, {node.in(0), node.in(1)}, "sum");
  sum = add_optional(node, sum, node.in_or_none(3), "bias");
  return normalized_sum(node, sum, {.axis = -1, .epsilon = node.real("epsilon", 1e-12f), .rms = true},
                        node.in(2), kNoValue);
}

ValueId embedding(NodeImport& node, size_t table, size_t ids, const std::string& name) {
  return node.add(Gather{.axis = 0}, {node.in(table), node.in(ids)}, name);
}

// How many words each row has: the mask's ones, or 0 without a mask.
ValueId word_counts(NodeImport& node) {
  const Dim batch = node.shape(0)[0];
  if (!node.has(7))
    return node.add(Fill{.shape = Shape{batch}, .dtype = DType::Int32, .value = 0}, {}, "mask_index");
  const ValueId one = node.scalar(1, node.dtype(7));
  const ValueId words =
      node.cast(node.pointwise(C::Equal, {node.in(7), one}, "is_word"), DType::Int32, "words");
  return node.reduce(ReduceKind::Sum, words, {1}, false, "mask_index");
}

// inputs: word ids (B, S), [segment ids], tables of words, positions, [segments], scale, shift, [mask],
// [position ids]
Values import_embed_layer_norm(NodeImport& node) {
  if (node.rank(0) != 2) node.fail("the word ids need two dimensions");
  const ValueId positions = node.has(8) ? embedding(node, 3, 8, "positions")
                                        : node.slice(node.in(3), 0, 0, node.shape(0)[1], "positions");
  ValueId sum = node.pointwise(C::Add, {embedding(node, 2, 0, "words"), positions}, "sum");
  if (node.has(1)) sum = node.pointwise(C::Add, {sum, embedding(node, 4, 1, "segments")}, "segment_sum");
  const LayerNorm op{.axis = -1, .epsilon = node.real("epsilon", 1e-12f)};
  Values results = {node.add(op, {sum, node.in(5), node.in(6)})};
  results.push_back(node.wants_output(1) ? word_counts(node) : kNoValue);
  results.push_back(sum);
  return results;
}

// The same on quantised tables, scale and shift. inputs: word ids (B, S), [segment ids], tables of words,
// positions, [segments], scale, shift, [mask], then the scales and the zero points of the five tensors from
// the word table on. Rows are looked up before they become numbers.
Values import_quantized_embed_layer_norm(NodeImport& node) {
  constexpr size_t kFirst = 2, kScales = 8, kZeros = 13;
  if (node.rank(0) != 2) node.fail("the word ids need two dimensions");
  for (const size_t i : {size_t{2}, size_t{3}, size_t{4}})
    if (node.has(i) && node.rank(i) != 2) node.fail("its tables need two dimensions");
  if (node.has(1) != node.has(4)) node.fail("segment ids and their table come together, or neither is there");
  const auto numbers = [&](ValueId x, size_t table, const std::string& name) {
    const size_t scale = kScales + table - kFirst, zero = kZeros + table - kFirst;
    for (const size_t i : {scale, zero})
      if (node.rank(i) > 1 || (node.rank(i) == 1 && !node.shape(i)[0].is_constant(1)))
        node.fail("input " + std::to_string(i) +
                  " must be one number, a scale or a zero point of a whole tensor");
    return dequantized(node, x, node.in(scale), node.in(zero), name, 0);
  };
  ValueId sum = node.pointwise(
      C::Add,
      {numbers(embedding(node, 2, 0, "word_rows"), 2, "words"),
       numbers(node.slice(node.in(3), 0, 0, node.shape(0)[1], "position_rows"), 3, "positions")},
      "sum");
  if (node.has(1))
    sum = node.pointwise(C::Add, {sum, numbers(embedding(node, 4, 1, "segment_rows"), 4, "segments")},
                         "segment_sum");
  const LayerNorm op{.axis = -1, .epsilon = node.real("epsilon", 1e-12f)};
  return {node.add(op, {sum, numbers(node.in(5), 5, "scale"), numbers(node.in(6), 6, "shift")}),
          node.wants_output(1) ? word_counts(node) : kNoValue};
}

// The channels are at the end unless the attribute says otherwise. Statistics are FP32, as are scale and
// bias.
ValueId group_norm(NodeImport& node, ValueId x) {
  const auto rank = static_cast<int64_t>(node.shape_of(x).size());
  const bool last = node.integer("channels_last", 1) != 0;
  if (rank < 3) node.fail("its input needs at least three dimensions");
  const GroupNorm op{.groups = node.required_integer("groups"), .epsilon = node.real("epsilon", 1e-5f)};
  if (op.groups < 1) node.fail("groups is " + std::to_string(op.groups));
  const DType type = node.dtype_of(x);
  if (last) x = node.transpose(x, channels_first(rank), "channels_first");
  ValueId y = node.add(op, {x, node.cast(node.in(1), type, "scale"), node.cast(node.in(2), type, "bias")});
  const int64_t activation = node.required_integer("activation");
  if (activation != 0 && activation != 1)
    node.fail("activation is " + std::to_string(activation) + ", not 0 or 1");
  if (activation == 1) y = node.pointwise(C::Silu, {y}, 1, 0, "silu");
  return last ? node.transpose(y, channels_last(rank), "channels_last") : y;
}

Values import_microsoft_group_norm(NodeImport& node) {
  return {group_norm(node, node.in(0))};
}

// inputs: x, scale, shift, residual (with as many dimensions as x, or (N, C)), [bias (C)]
Values import_skip_group_norm(NodeImport& node) {
  const bool last = node.integer("channels_last", 1) != 0;
  const Shape x = node.shape(0);
  if (x.size() < 3) node.fail("its input needs at least three dimensions");
  const auto spread = [&](ValueId v, std::string_view name) {
    const Shape s = node.shape_of(v);
    if (s.size() == x.size()) return v;
    if (s.empty() || s.size() > 2)
      node.fail("residual and bias have one or two dimensions, or those of the input");
    Shape wide(x.size(), Dim(1));
    if (s.size() == 2) wide[0] = s[0];
    wide[last ? wide.size() - 1 : 1] = s.back();
    return node.reshape(v, wide, name);
  };
  ValueId sum = node.pointwise(C::Add, {node.in(0), spread(node.in(3), "residual")}, "sum");
  if (node.has(4)) sum = node.pointwise(C::Add, {sum, spread(node.in(4), "bias")}, "bias_sum");
  return {group_norm(node, sum), sum};
}

// An RMS norm of each group of as many elements as the scale has, times silu(gate) or sigmoid(gate), in FP32.
Values import_gated_rms_norm(NodeImport& node) {
  const Shape s = node.shape(0);
  if (node.rank(1) < 1) node.fail("its scale needs a dimension");
  const Dim width = node.shape(1).back();
  const auto groups = s.empty() ? std::nullopt : s.back().exact_div(width);
  if (!groups)
    node.fail("its last dimension is no multiple of the scale's " + width.to_string() + " elements");
  Shape grouped = s;
  grouped.back() = *groups;
  grouped.push_back(width);
  const auto in_float = [&](size_t i, const std::string& name) {
    return node.cast(node.in(i), DType::Float32, name);
  };
  const ValueId x = node.reshape(in_float(0, "x"), grouped, "groups");
  const LayerNorm op{.axis = -1, .epsilon = node.real("epsilon", 1e-6f), .rms = true};
  const ValueId y = node.reshape(node.add(op, {x, in_float(1, "scale")}), s, "normalized");
  const std::string activation = node.text("activation", "silu");
  if (activation != "silu" && activation != "swish" && activation != "sigmoid")
    node.fail("activation is '" + activation + "', not silu, swish or sigmoid");
  const ValueId gate = activation == "sigmoid" ? node.pointwise(C::Sigmoid, {in_float(2, "gate")}, "sigmoid")
                                               : node.pointwise(C::Silu, {in_float(2, "gate")}, 1, 0, "silu");
  return {node.cast(node.pointwise(C::Mul, {y, gate}, "gated"), node.dtype(0), "result")};
}

// An RMS norm of each branch: the last dimension, or one of `num_branches` equal parts of it. The scale has
// one element per element of a branch, or of all branches.
Values import_branchwise_rms_norm(NodeImport& node) {
  const Shape s = node.shape(0);
  Shape grouped = s;
  if (s.empty()) node.fail("its input has no dimension of branches");
  if (const int64_t branches = node.integer("num_branches", 0); branches > 0) {
    const auto width = s.back().exact_div(branches);
    if (!width)
      node.fail("its last dimension does not divide into " + std::to_string(branches) + " branches");
    grouped.back() = branches;
    grouped.push_back(*width);
  }
  if (grouped.size() < 2) node.fail("its input has no dimension of branches");
  const ValueId x = node.reshape(node.cast(node.in(0), DType::Float32, "x"), grouped, "branches");
  ValueId y = node.add(LayerNorm{.axis = -1, .epsilon = node.real("epsilon", 1e-6f), .rms = true}, {x});
  if (node.has(1)) {
    const Dim branches = grouped[grouped.size() - 2], width = grouped.back();
    const bool shared = node.rank(1) == 1 && node.shape(1)[0] == width && !branches.is_constant(1);
    const ValueId scale = node.cast(node.in(1), DType::Float32, "scale");
    y = node.pointwise(C::Mul, {y, shared ? scale : node.reshape(scale, {branches, width}, "scales")},
                       "scaled");
  }
  return {node.cast(node.reshape(y, s, "rows"), node.dtype(0), "result")};
}

}  // namespace

std::vector<Importer> microsoft_norm_importers() {
  return {{"BranchwiseRMSNorm", 1, kLatestOpset, import_branchwise_rms_norm, kMicrosoftDomain},
          {"EmbedLayerNormalization", 1, kLatestOpset, import_embed_layer_norm, kMicrosoftDomain},
          {"GatedRMSNorm", 1, kLatestOpset, import_gated_rms_norm, kMicrosoftDomain},
          {"GroupNorm", 1, kLatestOpset, import_microsoft_group_norm, kMicrosoftDomain},
          {"QEmbedLayerNormalization", 1, kLatestOpset, import_quantized_embed_layer_norm, kMicrosoftDomain},
          {"SkipGroupNorm", 1, kLatestOpset, import_skip_group_norm, kMicrosoftDomain},
          {"SkipLayerNormalization", 1, kLatestOpset, import_skip_layer_norm, kMicrosoftDomain},
          {"SkipSimplifiedLayerNormalization", 1, kLatestOpset, import_skip_rms_norm, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
