// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: rows of a batch without the padding behind its shorter items, and attention on them.
#include "onnx/importers.h"
#include "onnx/microsoft/packing.h"
#include "onnx/microsoft/projection.h"

namespace lathe::onnx {

using C = PointwiseCode;

Packing::Packing(NodeImport& node, size_t offsets, const Dim& tokens) : node_(node) {
  const Shape s = node.shape(offsets);
  if (s.size() != 2) node.fail("its token offsets need two dimensions (batch, sequence)");
  batch_ = s[0];
  length_ = s[1];
  const ValueId all =
      node.reshape(node.cast(node.in(offsets), DType::Int64, "offsets"), {batch_ * length_}, "all_offsets");
  offsets_ = node.slice(all, 0, 0, tokens, "token_offsets");
}

ValueId Packing::unpacked(ValueId rows, const std::string& name) {
  const Shape s = node_.shape_of(rows);
  if (s.size() != 2) node_.fail("rows without padding have two dimensions (tokens, width)");
  const ValueId zeros =
      node_.add(Fill{.shape = Shape{batch_ * length_, s[1]}, .dtype = node_.dtype_of(rows), .value = 0}, {},
                name + "_zeros");
  const ValueId index = node_.reshape(offsets_, {s[0], 1}, name + "_index");
  return node_.reshape(node_.add(ScatterND{}, {zeros, index, rows}, name + "_all"), {batch_, length_, s[1]},
                       name);
}

ValueId Packing::packed(ValueId rows) {
  const Dim width = node_.shape_of(rows)[2];
  return node_.add(Gather{.axis = 0}, {node_.reshape(rows, {batch_ * length_, width}, "flat"), offsets_});
}

ValueId Packing::counts(size_t sums) {
  if (node_.rank(sums) != 1) node_.fail("the sums of its token counts need one dimension");
  const ValueId upper = node_.slice(node_.in(sums), 0, 1, batch_ + 1, "ends"),
                lower = node_.slice(node_.in(sums), 0, 0, batch_, "begins");
  return node_.pointwise(C::Sub, {upper, lower}, "counts");
}

namespace {

// inputs: x (tokens, D), weights, bias, offsets, sums, [bias of the scores]
Values import_packed_attention(NodeImport& node) {
  if (node.rank(0) != 2) node.fail("its input needs two dimensions (tokens, width)");
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
  const Shape s = node.shape(0);
  if (s.size() != 2 && s.size() != 4) node.fail("q needs two dimensions, or four with k and v beside it");
  Packing packing(node, 4, s[0]);
  Biases biases(node, node.in_or_none(3));
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
  if (node.rank(0) != 2) node.fail("its input needs two dimensions (tokens, width)");
  return {Packing(node, 1, node.shape(0)[0]).unpacked(node.in(0), "rows")};
}

// inputs: x (B, S, D), token counts (B); outputs: tokens (T, D), their offsets and then those of the padding
// (B, S), sums of the counts (B + 1), the largest count (1). A place among all rows is its own sort key, plus
// the number of places when it is padding; sorting puts tokens in front and keeps both in order.
Values import_remove_padding(NodeImport& node) {
  const Shape s = node.shape(0);
  if (s.size() != 3 || node.rank(1) != 1)
    node.fail("it takes an input of three dimensions (batch, sequence, width) and a token count per item");
  const Dim batch = s[0], length = s[1], places = batch * length;
  const ValueId counts = node.cast(node.in(1), DType::Int64, "counts");
  const ValueId step = count_up(node, length, {1, length}, "steps");
  const ValueId is_token = node.reshape(
      node.pointwise(C::Less, {step, node.reshape(counts, {batch, 1}, "counts_column")}, "is_token"),
      {places}, "all_tokens");
  const ValueId place = count_up(node, places, {places}, "places"), size = node.dim_scalar(places);
  const ValueId behind = node.pointwise(C::Add, {place, size}, "behind");
  const ValueId keys = node.pointwise(C::Where, {is_token, place, behind}, "keys");
  const ValueId count = node.reshape(size, {1}, "place_count");
  const ValueId sorted = node.add_multi(TopK{.axis = 0, .largest = false}, {keys, count}, 2, "sorted")[0];
  const ValueId offsets = node.pointwise(C::Where,
                                         {node.pointwise(C::Less, {sorted, size}, "is_front"), sorted,
                                          node.pointwise(C::Sub, {sorted, size}, "back")},
                                         "offsets");
  const ValueId tokens = node.add(NonZero{}, {is_token}, "tokens");
  const Dim found = node.shape_of(tokens)[1];
  const ValueId rows = node.add(
      Gather{.axis = 0},
      {node.reshape(node.in(0), {places, s[2]}, "flat"), node.reshape(tokens, {found}, "token_places")},
      "rows");
  const ValueId none = node.constant(Tensor::from<int64_t>({1}, {0}), "none");
  const ValueId sums =
      node.add(Concat{.axis = 0},
               {none, node.add(CumSum{}, {counts, node.scalar(0, DType::Int64)}, "running_sums")}, "sums");
  const DType type = node.dtype(1);
  return {rows, node.cast(node.reshape(offsets, {batch, length}, "offset_rows"), type, "token_offset"),
          node.cast(sums, type, "cumulated"),
          node.cast(node.reduce(ReduceKind::Max, counts, {0}, true, "longest"), type, "max_length")};
}

}  // namespace

std::vector<Importer> microsoft_packing_importers() {
  return {{"PackedAttention", 1, kLatestOpset, import_packed_attention, kMicrosoftDomain},
          {"PackedMultiHeadAttention", 1, kLatestOpset, import_packed_multi_head_attention, kMicrosoftDomain},
          {"RemovePadding", 1, kLatestOpset, import_remove_padding, kMicrosoftDomain},
          {"RestorePadding", 1, kLatestOpset, import_restore_padding, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
