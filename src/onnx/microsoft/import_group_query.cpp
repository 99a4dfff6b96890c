// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft::GroupQueryAttention: what ONNX Runtime's tools write for decoders. Its cache has room for as
// many positions as it is long; new keys and values are written behind those that each item of the batch has
// already, and what lies behind them is out of sight. So the same graph serves a cache that grows with each
// call and one of a fixed length. SparseAttention is the same with a cache of a fixed length, where blocks of
// keys are out of sight of blocks of queries.
#include <limits>

#include "onnx/importers.h"
#include "onnx/microsoft/attention.h"
#include "onnx/rotary.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// Which blocks of so many keys blocks of as many queries see: (layouts, blocks, blocks). Head h has layout
// h modulo their number.
struct BlockMask {
  Tensor seen;
  int64_t size = 0;
};

class GroupQueryImport {
 public:
  explicit GroupQueryImport(NodeImport& node, const BlockMask& blocks = {}) : node_(node), blocks_(blocks) {}

  Values run() {
    refuse();
    read_rows();
    read_past_length();
    normalize();
    turn();
    write_cache();
    return attend();
  }

 private:
  enum Input : size_t {
    kQuery,
    kKey,
    kValue,
    kPastKey,
    kPastValue,
    kLengths,
    kTotal,
    kCos,
    kSin,
    kPositions,
    kBias,
    kSink,
    kKeyScale,
    kValueScale,
    kQueryNorm,
    kKeyNorm
  };

  void refuse() const {
    for (const size_t cache : {kPastKey, kPastValue})
      if (node_.has(cache) && node_.rank(cache) != 4)
        node_.fail("its caches need four dimensions (batch, heads, positions, width)");
    for (const size_t table : {kCos, kSin})
      if (node_.has(table) && node_.rank(table) != 2)
        node_.fail("its tables of cosines and sines need two dimensions");
    if (node_.has(kKeyScale) || node_.has(kValueScale))
      throw_unsupported(
          "its cache is quantized (k_scale, v_scale); export the model with a cache in the model's own type");
    if (node_.integer("sliding_window_cache", 0) != 0)
      throw_unsupported(
          "a cache that forgets positions (sliding_window_cache) is not supported; export with a full cache");
  }

  // q (B, S, (H + 2 G) * D) with all three beside each other when there is no k.
  void read_rows() {
    const int64_t heads = node_.required_integer("num_heads"),
                  groups = node_.required_integer("kv_num_heads");
    const Shape s = node_.shape(kQuery);
    if (s.size() != 3) node_.fail("q needs three dimensions (batch, sequence, heads times width)");
    batch_ = s[0];
    length_ = s[1];
    if (node_.has(kKey)) {
      q_ = to_heads(node_, node_.in(kQuery), heads, "q");
      k_ = to_heads(node_, node_.in(kKey), groups, "k");
      v_ = to_heads(node_, node_.in(kValue), groups, "v");
      return;
    }
    const auto width = s[2].exact_div(heads + 2 * groups);
    if (!width)
      node_.fail("a width of " + s[2].to_string() + " is not made of " + std::to_string(heads + 2 * groups) +
                 " heads");
    const Dim q_end = *width * heads, k_end = q_end + *width * groups;
    const auto part = [&](const Dim& from, const Dim& to, int64_t count, const std::string& name) {
      return to_heads(node_, node_.slice(node_.in(kQuery), 2, from, to, name + "_rows"), count, name);
    };
    q_ = part(0, q_end, heads, "q");
    k_ = part(q_end, k_end, groups, "k");
    v_ = part(k_end, s[2], groups, "v");
  }

  bool has_past() const { return node_.has(kPastKey) && !node_.shape(kPastKey)[2].is_constant(0); }

  // Positions before the new ones, per item (B, 1, 1, 1): none when all that there is is new, where items may
  // be shorter than others.
  void read_past_length() {
    past_ = node_.scalar(0, DType::Int64);
    if (!has_past()) return;
    const ValueId total =
        node_.reshape(node_.cast(node_.in(kTotal), DType::Int64, "total"), {1, 1, 1, 1}, "total_axes");
    const ValueId last =
        node_.reshape(node_.cast(node_.in(kLengths), DType::Int64, "lengths"), {batch_, 1, 1, 1}, "last");
    const ValueId length = node_.dim_scalar(length_);
    const ValueId before = node_.pointwise(C::Sub, {last, node_.dim_scalar(length_ - 1)}, "before");
    const ValueId is_first = node_.pointwise(C::Equal, {total, length}, "is_first");
    past_ = node_.pointwise(C::Where, {is_first, past_, before}, "past_length");
  }

  // Norms of each head, before they turn.
  void normalize() {
    const LayerNorm op{.axis = -1, .epsilon = node_.real("qk_norm_epsilon", 1e-6f), .rms = true};
    if (node_.has(kQueryNorm)) q_ = node_.add(op, {q_, node_.in(kQueryNorm)}, "q_norm");
    if (node_.has(kKeyNorm)) k_ = node_.add(op, {k_, node_.in(kKeyNorm)}, "k_norm");
  }

  ValueId positions() {
    if (node_.has(kPositions)) return node_.cast(node_.in(kPositions), DType::Int64, "position_ids");
    const ValueId now = count_up(node_, length_, {1, length_}, "steps");
    if (!has_past()) return now;
    return node_.pointwise(C::Add, {node_.reshape(past_, {batch_, 1}, "past_rows"), now}, "position_ids");
  }

  void turn() {
    if (node_.integer("do_rotary", 0) == 0) return;
    const ValueId ids = positions();
    const Dim half = node_.shape(kCos).back();
    if (!half.is_constant()) throw_unsupported("the width of its tables is not constant");
    const Rotation rotation{.width = 2 * half.value(),
                            .interleaved = node_.integer("rotary_interleaved", 0) != 0};
    const Dim width = node_.shape_of(q_)[3];
    if (!width.is_constant() || width.value() < rotation.width)
      node_.fail("its tables turn " + std::to_string(rotation.width) + " elements of heads of " +
                 width.to_string());
    const ValueId cos = node_.add(Gather{.axis = 0}, {node_.in(kCos), ids}, "cos"),
                  sin = node_.add(Gather{.axis = 0}, {node_.in(kSin), ids}, "sin");
    q_ = rotate(node_, q_, cos, sin, rotation);
    k_ = rotate(node_, k_, cos, sin, rotation);
  }

  // The cache is as long as the past's, or as all positions when those are more.
  Dim capacity() const {
    const Dim past = node_.shape(kPastKey)[2];
    if (blocks_.seen) return past;
    const auto total = node_.contents(kTotal);
    if (total && total->size() == 1) return max(past, total->front());
    return past + length_;
  }

  ValueId written(size_t past, ValueId now, const std::string& name) {
    const Dim room = capacity() - node_.shape(past)[2];
    ValueId cache = node_.in(past);
    if (!room.is_constant(0))
      cache = node_.add(Pad{.pads = Shape{0, 0, 0, 0, 0, 0, room, 0}}, {cache}, name + "_room");
    const ValueId steps = count_up(node_, length_, {1, 1, length_, 1}, name + "_steps");
    const ValueId index = node_.expand(node_.pointwise(C::Add, {past_, steps}, name + "_places"),
                                       node_.shape_of(now), name + "_index");
    return node_.add(ScatterElements{.axis = 2}, {cache, index, now}, name);
  }

  void write_cache() {
    if (!has_past()) return;
    k_ = written(kPastKey, k_, "present_key");
    v_ = written(kPastValue, v_, "present_value");
  }

  ValueId block_of(ValueId positions, const std::string& name) {
    return node_.pointwise(C::Div, {positions, node_.scalar(static_cast<double>(blocks_.size), DType::Int64)},
                           name);
  }

  // 0 where a block is seen, else minus infinity: (B, H, S, T).
  ValueId block_bias() {
    const Dim heads = node_.shape_of(q_)[1], keys = node_.shape_of(k_)[2];
    const Dim layouts = blocks_.seen.extents()[0];
    const auto repeats = heads.exact_div(layouts);
    if (!repeats)
      node_.fail(heads.to_string() + " heads are no multiple of " + layouts.to_string() +
                 " layouts of blocks");
    const ValueId step = count_up(node_, length_, {1, length_}, "block_steps");
    const ValueId position =
        node_.pointwise(C::Add, {node_.reshape(past_, {batch_, 1}, "block_past"), step}, "block_positions");
    const ValueId mask = node_.constant(blocks_.seen, "block_mask");
    const ValueId rows =
        node_.add(Gather{.axis = 1}, {mask, block_of(position, "query_blocks")}, "block_rows");
    const ValueId key_blocks = block_of(count_up(node_, keys, {keys}, "block_keys"), "key_blocks");
    const ValueId seen = node_.add(Gather{.axis = 3}, {rows, key_blocks}, "block_columns");
    const ValueId by_item = node_.reshape(node_.transpose(seen, {1, 0, 2, 3}, "seen_by_item"),
                                          {batch_, 1, layouts, length_, keys}, "seen_layouts");
    const ValueId of_heads =
        node_.reshape(node_.expand(by_item, {batch_, *repeats, layouts, length_, keys}, "seen_repeats"),
                      {batch_, heads, length_, keys}, "seen_heads");
    const DType type = node_.dtype_of(q_);
    const ValueId out = node_.scalar(-std::numeric_limits<double>::infinity(), type);
    return node_.pointwise(C::Where, {of_heads, node_.scalar(0, type), out}, "block_bias");
  }

  Values attend() {
    AttentionWriter writer(node_, q_, k_, v_, node_.real("scale", 0));
    if (blocks_.seen) writer.add_bias(block_bias());
    if (node_.has(kBias)) writer.add_bias(node_.in(kBias));
    const bool causal = node_.integer("causal", 1) != 0;
    if (causal && has_past()) {
      writer.be_causal(past_);
    } else if (causal) {
      writer.be_causal(Dim(0));
    } else if (has_past()) {
      writer.end_at(node_.pointwise(C::Add, {past_, node_.dim_scalar(length_)}, "end"));
    }
    if (const int64_t window = node_.integer("local_window_size", -1); window > 0)
      writer.be_local(past_, window);
    writer.softcap = node_.real("softcap", 0);
    writer.sink = node_.in_or_none(kSink);
    writer.smooth = node_.integer("smooth_softmax", 0) == 1;
    const int64_t shown = node_.integer("qk_output", 0);
    const ValueId y = node_.wants_output(3) && shown != 0 ? writer.write_scores() : writer.write();
    return {y, k_, v_, shown == 2 ? writer.weights : writer.scores};
  }

  NodeImport& node_;
  const BlockMask blocks_;
  Dim batch_, length_;
  ValueId q_ = kNoValue, k_ = kNoValue, v_ = kNoValue, past_ = kNoValue;
};

Values import_group_query(NodeImport& node) {
  return GroupQueryImport(node).run();
}

// Rows of blocks as a list of columns: ends of the rows (layouts, blocks + 1) and the columns (layouts, most
// columns), in which -1 fills up.
BlockMask read_blocks(const NodeImport& node, size_t ends, size_t columns) {
  constexpr int64_t kMostBlocks = int64_t{1} << 28;
  const int64_t size = node.required_integer("sparse_block_size");
  if (size < 1 || size > kMostBlocks) node.fail("sparse_block_size is " + std::to_string(size));
  const auto row_ends = node.known_ints(ends), all_columns = node.known_ints(columns);
  if (!row_ends || !all_columns)
    throw_unsupported("its block_row_indices and block_col_indices must be constant");
  const Shape rows_shape = node.shape(ends), columns_shape = node.shape(columns);
  if (rows_shape.size() != 2 || columns_shape.size() != 2 || !(rows_shape[0] == columns_shape[0]) ||
      row_ends->empty() || all_columns->empty())
    node.fail("its block_row_indices and block_col_indices need two dimensions, the first for layouts");
  const int64_t layouts = rows_shape[0].value(), blocks = rows_shape[1].value() - 1,
                width = columns_shape[1].value();
  if (blocks < 1 || blocks > kMostBlocks / blocks / layouts)
    node.fail("its block_row_indices are of " + std::to_string(blocks) + " blocks");
  Tensor seen = Tensor::allocate(DType::Bool, {layouts, blocks, blocks});
  const auto flags = seen.mutable_data<uint8_t>();
  for (int64_t layout = 0; layout < layouts; ++layout)
    for (int64_t row = 0; row < blocks; ++row) {
      const size_t at = static_cast<size_t>(layout * (blocks + 1) + row);
      const int64_t begin = (*row_ends)[at], end = (*row_ends)[at + 1];
      if (begin < 0 || end < begin || end > width)
        node.fail("row " + std::to_string(row) + " of its blocks has the columns " + std::to_string(begin) +
                  " to " + std::to_string(end) + " of " + std::to_string(width));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = (*all_columns)[static_cast<size_t>(layout * width + i)];
        if (column < 0 || column >= blocks)
          node.fail("block_col_indices has the entry " + std::to_string(column) + " for " +
                    std::to_string(blocks) + " blocks");
        flags[static_cast<size_t>((layout * blocks + row) * blocks + column)] = 1;
      }
    }
  return {seen, size};
}

// inputs: q (B, S, H * D), [k], [v], caches of k and v, row ends and columns of blocks, largest number of
// positions with the new ones, number per item, [cosines], [sines]
Values import_sparse_attention(NodeImport& node) {
  if (node.rank(3) != 4 || node.shape(3)[2].is_constant(0)) node.fail("its caches need room for positions");
  const BlockMask blocks = read_blocks(node, 5, 6);
  const ValueId one = node.scalar(1, DType::Int64);
  const ValueId last = node.pointwise(
      PointwiseCode::Sub, {node.cast(node.in(8), DType::Int64, "key_lengths"), one}, "last_positions");
  NodeImport inner = node.with(1, {node.in(0), node.in_or_none(1), node.in_or_none(2), node.in(3), node.in(4),
                                   last, node.in(7), node.in_or_none(9), node.in_or_none(10)});
  Values results = GroupQueryImport(inner, blocks).run();
  results.resize(3);
  return results;
}

}  // namespace

std::vector<Importer> microsoft_group_query_importers() {
  return {{"GroupQueryAttention", 1, kLatestOpset, import_group_query, kMicrosoftDomain},
          {"SparseAttention", 1, kLatestOpset, import_sparse_attention, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
