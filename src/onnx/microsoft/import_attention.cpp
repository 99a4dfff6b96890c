// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: Attention (projections inside), its form with quantised projections, MultiHeadAttention, and
// the forms of these for one new token. Weights of projections are taken apart, so that the passes see three
// products.
#include "onnx/importers.h"
#include "onnx/microsoft/projection.h"
#include "onnx/quantized.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// inputs: x (B, S, D), weights, [bias], [mask], [past], [bias of the scores]
Values import_microsoft_attention(NodeImport& node) {
  refuse_shared_buffer(node);
  refuse_rotary(node);
  Parts parts{.mask = node.in_or_none(3),
              .bias = node.in_or_none(5),
              .causal = node.integer("unidirectional", 0) != 0};
  split_heads(node, project(node, node.in(0), node.in(1), node.in_or_none(2)), parts);
  read_joined_past(node, 4, parts);
  const Attended a = attend(node, parts);
  return {a.y, node.wants_output(1) ? joined_present(node, a) : kNoValue};
}

// One new token, with a past. inputs: x (B, 1, D), weights, bias, [mask], past, [bias of the scores], past
// length, [beam width], [beams]
Values import_masked_self_attention(NodeImport& node) {
  refuse_beams(node, 8);
  return import_microsoft_attention(node);
}

// A scale or zero point of all columns, or those of some columns where each has one.
ValueId of_columns(NodeImport& node, size_t input, const Dim& from, const Dim& to, const std::string& name) {
  if (!node.has(input)) return kNoValue;
  const Shape s = node.shape(input);
  if (s.empty() || s[0].is_constant(1)) return node.in(input);
  return node.slice(node.in(input), 0, from, to, name);
}

// inputs: x (B, S, D), weights (D, 3 D'), bias, scales of both, [mask], [zero points of both], [past]. Each
// product's weights, scales and zero points are taken apart in front of DequantizeLinear, so that the passes
// see three quantised products.
Values import_quantized_attention(NodeImport& node) {
  enum Input : size_t { kX, kWeight, kBias, kXScale, kScale, kMask, kXZero, kZero, kPast };
  refuse_shared_buffer(node);
  refuse_rotary(node);
  if (node.rank(kX) != 3 || node.rank(kWeight) != 2 || node.rank(kBias) != 1)
    node.fail("it takes an input of three dimensions, weights of two and a bias of one");
  const Dim width = node.shape(kWeight)[1];
  node.in(kScale);  // it must be there
  for (const size_t i : {kScale, kZero}) {
    if (!node.has(i) || node.rank(i) == 0) continue;
    const Dim count = node.shape(i)[0];
    if (node.rank(i) != 1 || (!count.is_constant(1) && !(count == width)))
      node.fail("scales and zero points of its weights are one, or one per column (" + width.to_string() +
                ")");
  }
  const ValueId x = dequantized(node, node.in(kX), node.in(kXScale), node.in_or_none(kXZero), "x", 2);
  const auto columns = [&](const Dim& from, const Dim& to, const std::string& name) {
    const ValueId part = node.slice(node.in(kWeight), 1, from, to, name + "_columns");
    return dequantized(node, part, of_columns(node, kScale, from, to, name + "_scales"),
                       of_columns(node, kZero, from, to, name + "_zeros"), name, 1);
  };
  Parts parts{.mask = node.in_or_none(kMask), .causal = node.integer("unidirectional", 0) != 0};
  split_heads(node, project(node, x, width, columns, node.cast(node.in(kBias), DType::Float32, "bias")),
              parts);
  read_joined_past(node, kPast, parts);
  const Attended a = attend(node, parts);
  const DType type = node.dtype(kXScale);
  return {node.cast(a.y, type, "result"),
          node.wants_output(1) ? node.cast(joined_present(node, a), type, "present_type") : kNoValue};
}

bool known_flag(const NodeImport& node, size_t input, std::string_view name) {
  const Tensor flag = node.constant(input);
  if (!flag)
    throw_unsupported("its " + std::string(name) + " is computed while the model runs; it must be constant");
  if (flag.size() != 1) node.fail(std::string(name) + " must be one value");
  return flag.to_int64s()[0] != 0;
}

// Rows in front: inputs q (S, B, D), k (T, B, D), weights of q (D, D) and of k and v (D, 2 D), bias (3 D),
// [mask of keys (B, T): true is padding], [caches of k and v (B, H, P, D / H)], then whether keys are those
// of an encoder, whether the caches are used, whether there are any, whether there is a mask. Without an
// encoder, k and v are made of q, behind the caches; with one, of k, or they are the caches alone.
Values import_decoder_attention(NodeImport& node) {
  enum Input : size_t {
    kQuery,
    kKey,
    kQWeight,
    kWeight,
    kBias,
    kMask,
    kKeys,
    kValues,
    kEncoder,
    kUsed,
    kAny,
    kMasked
  };
  const int64_t heads = node.required_integer("num_heads");
  if (node.rank(kQuery) != 3 || node.rank(kKey) != 3 || node.rank(kQWeight) != 2 || node.rank(kWeight) != 2 ||
      node.rank(kBias) != 1)
    node.fail("it takes q and k of three dimensions, weights of two and a bias of one");
  const bool encoder = known_flag(node, kEncoder, "static_kv"),
             masked = known_flag(node, kMasked, "has_key_padding_mask");
  const bool cached = known_flag(node, kAny, "has_layer_state") && known_flag(node, kUsed, "use_past");
  const Dim width = node.shape(kQuery)[2];
  const auto projected = [&](size_t x, size_t weight, const Dim& from, const Dim& bias,
                             const std::string& name) {
    const ValueId rows = node.transpose(node.in(x), {1, 0, 2}, name + "_rows");
    const ValueId w = node.slice(node.in(weight), 1, from, from + width, name + "_weight");
    const ValueId y = node.add(MatMul{}, {rows, w}, name + "_product");
    const ValueId b = node.slice(node.in(kBias), 0, bias, bias + width, name + "_bias");
    return to_heads(node, node.pointwise(C::Add, {y, b}, name + "_biased"), heads, name);
  };
  Parts parts{.q = projected(kQuery, kQWeight, 0, 0, "q")};
  if (cached && encoder) {
    parts.k = node.in(kKeys);
    parts.v = node.in(kValues);
  } else {
    const size_t source = encoder ? kKey : kQuery;
    parts.k = projected(source, kWeight, 0, width, "k");
    parts.v = projected(source, kWeight, width, width * 2, "v");
    if (cached) {
      parts.past_k = node.in(kKeys);
      parts.past_v = node.in(kValues);
    }
  }
  if (masked) {
    if (node.rank(kMask) != 2 || node.dtype(kMask) != DType::Bool)
      node.fail("its key_padding_mask must be bool (batch, keys)");
    parts.mask = node.pointwise(C::Not, {node.in(kMask)}, "is_key");
  }
  const Attended a = attend(node, parts);
  return {node.transpose(a.y, {1, 0, 2}, "y_rows"), a.k, a.v};
}

// x (B, S, H, N, D) to N heads (B, H, S, D), the `i`-th of N.
ValueId unpacked(NodeImport& node, ValueId x, int64_t i, const std::string& name) {
  const Shape s = node.shape_of(x);
  const ValueId one =
      node.reshape(node.slice(x, 3, i, i + 1, name + "_slice"), {s[0], s[1], s[2], s[4]}, name + "_heads");
  return node.transpose(one, {0, 2, 1, 3}, name);
}

// q, k and v as rows, or packed with five dimensions; k and v as heads already when they are those of an
// encoder.
void read_heads(NodeImport& node, ValueId bias, Parts& parts) {
  Biases biases(node, bias);
  const int64_t heads = node.required_integer("num_heads");
  if (node.rank(0) == 5) {
    parts.q = biases.to_heads(unpacked(node, node.in(0), 0, "q"), "q");
    parts.k = biases.to_heads(unpacked(node, node.in(0), 1, "k"), "k");
    parts.v = biases.to_heads(unpacked(node, node.in(0), 2, "v"), "v");
    return;
  }
  parts.q = to_heads(node, biases.to_rows(node.in(0), "q"), heads, "q");
  if (node.rank(1) == 5) {
    parts.k = biases.to_heads(unpacked(node, node.in(1), 0, "k"), "k");
    parts.v = biases.to_heads(unpacked(node, node.in(1), 1, "v"), "v");
  } else if (node.rank(1) == 4) {
    parts.k = node.in(1);
    parts.v = node.in(2);
  } else {
    parts.k = to_heads(node, biases.to_rows(node.in(1), "k"), heads, "k");
    parts.v = to_heads(node, biases.to_rows(node.in(2), "v"), heads, "v");
  }
}

Values results_of(const Attended& a) {
  return {a.y, a.k, a.v, a.scores};
}

// inputs: q, [k], [v], [bias], [key padding mask], [bias of the scores], [past k], [past v], [past length],
// [beams]
Values import_multi_head_attention(NodeImport& node) {
  refuse_beams(node, 9);
  if (node.has(8))
    throw_unsupported(
        "past and present in one buffer (past_sequence_length) are not supported: leave the input out, so "
        "that "
        "present is past and the new positions");
  Parts parts{.past_k = node.in_or_none(6),
              .past_v = node.in_or_none(7),
              .mask = node.in_or_none(4),
              .bias = node.in_or_none(5),
              .causal = node.integer("unidirectional", 0) != 0};
  read_heads(node, node.in_or_none(3), parts);
  return results_of(attend(node, parts, node.wants_output(3)));
}

// One new token. inputs: q, [k], [v], [mask], [bias of the scores], [past k], [past v], [past length], [beam
// width], [beams], [bias]. Without k, q holds all three beside each other.
Values import_masked_attention(NodeImport& node) {
  refuse_shared_buffer(node);
  refuse_beams(node, 9);
  Parts parts{.past_k = node.in_or_none(5),
              .past_v = node.in_or_none(6),
              .mask = node.in_or_none(3),
              .bias = node.in_or_none(4)};
  if (node.has(1)) {
    read_heads(node, node.in_or_none(10), parts);
  } else {
    if (node.rank(0) != 3) node.fail("q, k and v beside each other need three dimensions");
    const Shape sizes = hidden_sizes(node, node.shape(0).back());
    Biases biases(node, node.in_or_none(10));
    const auto part = [&](const Dim& from, const Dim& to, const std::string& name) {
      return biases.to_rows(node.slice(node.in(0), 2, from, to, name + "_slice"), name);
    };
    Rows rows;
    rows.q = part(0, sizes[0], "q");
    rows.k = part(sizes[0], sizes[0] + sizes[1], "k");
    rows.v = part(sizes[0] + sizes[1], node.shape(0).back(), "v");
    split_heads(node, rows, parts);
  }
  return results_of(attend(node, parts, node.wants_output(3)));
}

}  // namespace

std::vector<Importer> microsoft_attention_importers() {
  return {{"Attention", 1, kLatestOpset, import_microsoft_attention, kMicrosoftDomain},
          {"DecoderAttention", 1, kLatestOpset, import_decoder_attention, kMicrosoftDomain},
          {"DecoderMaskedMultiHeadAttention", 1, kLatestOpset, import_masked_attention, kMicrosoftDomain},
          {"DecoderMaskedSelfAttention", 1, kLatestOpset, import_masked_self_attention, kMicrosoftDomain},
          {"MultiHeadAttention", 1, kLatestOpset, import_multi_head_attention, kMicrosoftDomain},
          {"QAttention", 1, kLatestOpset, import_quantized_attention, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
