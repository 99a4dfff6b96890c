// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft::GroupQueryAttention: what ONNX Runtime's tools write for decoders. Its cache has room for as
// many positions as it is long; new keys and values are written behind those that each item of the batch has
// already, and what lies behind them is out of sight. So the same graph serves a cache that grows with each
// call and one of a fixed length.
#include "onnx/importers.h"
#include "onnx/microsoft/attention.h"
#include "onnx/rotary.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

class GroupQueryImport {
 public:
  explicit GroupQueryImport(NodeImport& node) : node_(node) {}

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

  Values attend() {
    AttentionWriter writer(node_, q_, k_, v_, node_.real("scale", 0));
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
  Dim batch_, length_;
  ValueId q_ = kNoValue, k_ = kNoValue, v_ = kNoValue, past_ = kNoValue;
};

Values import_group_query(NodeImport& node) {
  return GroupQueryImport(node).run();
}

}  // namespace

std::vector<Importer> microsoft_group_query_importers() {
  return {{"GroupQueryAttention", 1, kLatestOpset, import_group_query, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
