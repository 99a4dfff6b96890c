// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: Attention (projections inside), MultiHeadAttention, and the forms of both for one new token
// or for packed rows. Weights of projections are taken apart, so that the passes see three products.
#include "onnx/importers.h"
#include "onnx/microsoft/attention.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

constexpr float kMaskFilter = -10000;  // what ONNX Runtime adds to scores of masked keys

struct Rows {
  ValueId q = kNoValue, k = kNoValue, v = kNoValue;  // (B, S, H * D)
};
// What an operator attends, whatever its form: heads (B, H, S, D).
struct Parts {
  ValueId q = kNoValue, k = kNoValue, v = kNoValue;
  ValueId past_k = kNoValue, past_v = kNoValue;
  ValueId mask = kNoValue, bias = kNoValue;
  bool causal = false;
};
struct Attended {
  ValueId y = kNoValue, k = kNoValue, v = kNoValue, scores = kNoValue;
};

Attended attend(NodeImport& node, const Parts& parts, bool wants_scores = false) {
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

// The widths of q, k and v, which together are `all`.
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

// x (..., D) times weights (D, Q + K + V), plus a bias, as three products.
Rows project(NodeImport& node, ValueId x, ValueId weights, ValueId bias) {
  const Shape w = node.shape_of(weights);
  if (w.size() != 2) node.fail("its weight needs two dimensions");
  const Shape sizes = hidden_sizes(node, w[1]);
  Dim from = 0;
  const auto part = [&](const Dim& size, const std::string& name) {
    const Dim to = from + size;
    ValueId y = node.add(MatMul{}, {x, node.slice(weights, 1, from, to, name + "_weight")}, name);
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

void split_heads(NodeImport& node, const Rows& rows, Parts& parts) {
  const int64_t heads = node.required_integer("num_heads");
  parts.q = to_heads(node, rows.q, heads, "q");
  parts.k = to_heads(node, rows.k, heads, "k");
  parts.v = to_heads(node, rows.v, heads, "v");
}

// past (2, B, H, P, D): keys, then values.
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

// inputs: x (B, S, D), weights, [bias], [mask], [past], [bias of the scores]
Values import_attention(NodeImport& node) {
  refuse_shared_buffer(node);
  if (node.integer("do_rotary", 0) != 0)
    throw_unsupported("rotary embeddings inside of it (do_rotary) are not supported");
  Parts parts{.mask = node.in_or_none(3),
              .bias = node.in_or_none(5),
              .causal = node.integer("unidirectional", 0) != 0};
  split_heads(node, project(node, node.in(0), node.in(1), node.in_or_none(2)), parts);
  read_joined_past(node, 4, parts);
  const Attended a = attend(node, parts);
  return {a.y, node.wants_output(1) ? joined_present(node, a) : kNoValue};
}

// x (B, S, H, N, D) to N heads (B, H, S, D), the `i`-th of N.
ValueId unpacked(NodeImport& node, ValueId x, int64_t i, const std::string& name) {
  const Shape s = node.shape_of(x);
  const ValueId one =
      node.reshape(node.slice(x, 3, i, i + 1, name + "_slice"), {s[0], s[1], s[2], s[4]}, name + "_heads");
  return node.transpose(one, {0, 2, 1, 3}, name);
}

// The bias of q, k and v in a row; those that an operator does not add any more are left out.
class Biases {
 public:
  Biases(NodeImport& node, ValueId all) : node_(node), all_(all) {}

  // Adds the next part to rows (B, S, H * D).
  ValueId to_rows(ValueId rows, const std::string& name) {
    if (all_ == kNoValue) return rows;
    return node_.pointwise(C::Add, {rows, next(node_.shape_of(rows).back(), name)}, name + "_biased");
  }
  // The same for heads (B, H, S, D).
  ValueId to_heads(ValueId heads, const std::string& name) {
    if (all_ == kNoValue) return heads;
    const Shape s = node_.shape_of(heads);
    const ValueId part = node_.reshape(next(s[1] * s[3], name), {1, s[1], 1, s[3]}, name + "_bias_heads");
    return node_.pointwise(C::Add, {heads, part}, name + "_biased");
  }

 private:
  ValueId next(const Dim& size, const std::string& name) {
    const Dim from = from_;
    from_ = from_ + size;
    return node_.slice(all_, 0, from, from_, name + "_bias");
  }

  NodeImport& node_;
  ValueId all_;
  Dim from_ = 0;
};

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

void refuse_beams(const NodeImport& node, size_t cache_indirection) {
  if (node.has(cache_indirection))
    throw_unsupported(
        "caches that several beams share (cache_indirection) are not supported: search outside of the model");
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

// Rows without padding (tokens, D), and where each of them lies among all rows (B, S): offsets of tokens,
// then of padding.
class Packing {
 public:
  Packing(NodeImport& node, size_t offsets, const Dim& tokens)
      : node_(node), batch_(node.shape(offsets)[0]), length_(node.shape(offsets)[1]) {
    const ValueId all =
        node.reshape(node.cast(node.in(offsets), DType::Int64, "offsets"), {batch_ * length_}, "all_offsets");
    offsets_ = node.slice(all, 0, 0, tokens, "token_offsets");
  }

  // (tokens, D) to (B, S, D), zero in the padding.
  ValueId unpacked(ValueId rows, const std::string& name) {
    const Shape s = node_.shape_of(rows);
    const ValueId zeros =
        node_.add(Fill{.shape = Shape{batch_ * length_, s[1]}, .dtype = node_.dtype_of(rows), .value = 0}, {},
                  name + "_zeros");
    const ValueId index = node_.reshape(offsets_, {s[0], 1}, name + "_index");
    return node_.reshape(node_.add(ScatterND{}, {zeros, index, rows}, name + "_all"), {batch_, length_, s[1]},
                         name);
  }
  ValueId packed(ValueId rows) {
    const Dim width = node_.shape_of(rows)[2];
    return node_.add(Gather{.axis = 0}, {node_.reshape(rows, {batch_ * length_, width}, "flat"), offsets_});
  }
  // How many tokens each item of the batch has, from the sums (B + 1) of them.
  ValueId counts(size_t sums) {
    const ValueId upper = node_.slice(node_.in(sums), 0, 1, batch_ + 1, "ends"),
                  lower = node_.slice(node_.in(sums), 0, 0, batch_, "begins");
    return node_.pointwise(C::Sub, {upper, lower}, "counts");
  }

 private:
  NodeImport& node_;
  Dim batch_, length_;
  ValueId offsets_ = kNoValue;
};

// inputs: x (tokens, D), weights, bias, offsets, sums, [bias of the scores]
Values import_packed_attention(NodeImport& node) {
  Packing packing(node, 3, node.shape(0)[0]);
  const Rows rows = project(node, node.in(0), node.in(1), node.in_or_none(2));
  Parts parts{.mask = packing.counts(4), .bias = node.in_or_none(5)};
  split_heads(node,
              {packing.unpacked(rows.q, "q"), packing.unpacked(rows.k, "k"), packing.unpacked(rows.v, "v")},
              parts);
  return {packing.packed(attend(node, parts).y)};
}

// inputs: q (tokens, D) or (tokens, H, 3, D), [k], [v], [bias], offsets, sums, [bias of the scores]
Values import_packed_multi_head_attention(NodeImport& node) {
  Packing packing(node, 4, node.shape(0)[0]);
  Biases biases(node, node.in_or_none(3));
  const Shape s = node.shape(0);
  const auto rows = [&](size_t i, const std::string& name) {
    ValueId x = kNoValue;
    if (s.size() == 4) {
      const auto at = static_cast<int64_t>(i);
      x = node.reshape(node.slice(node.in(0), 2, at, at + 1, name + "_slice"), {s[0], s[1] * s[3]},
                       name + "_rows");
    } else {
      x = node.in(i);
    }
    return packing.unpacked(biases.to_rows(x, name), name);
  };
  Parts parts{.mask = packing.counts(5), .bias = node.in_or_none(6)};
  Rows all;
  all.q = rows(0, "q");
  all.k = rows(1, "k");
  all.v = rows(2, "v");
  split_heads(node, all, parts);
  return {packing.packed(attend(node, parts).y)};
}

Values import_restore_padding(NodeImport& node) {
  return {Packing(node, 1, node.shape(0)[0]).unpacked(node.in(0), "rows")};
}

}  // namespace

std::vector<Importer> microsoft_attention_importers() {
  return {{"Attention", 1, kLatestOpset, import_attention, kMicrosoftDomain},
          {"DecoderMaskedMultiHeadAttention", 1, kLatestOpset, import_masked_attention, kMicrosoftDomain},
          {"MultiHeadAttention", 1, kLatestOpset, import_multi_head_attention, kMicrosoftDomain},
          {"PackedAttention", 1, kLatestOpset, import_packed_attention, kMicrosoftDomain},
          {"PackedMultiHeadAttention", 1, kLatestOpset, import_packed_multi_head_attention, kMicrosoftDomain},
          {"RestorePadding", 1, kLatestOpset, import_restore_padding, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
