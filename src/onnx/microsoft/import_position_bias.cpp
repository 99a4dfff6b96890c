// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: biases of attention scores by the distance of key and query, as T5 has them
// (RelativePositionBias) and WavLM gates them (GatedRelativePositionBias).
#include <algorithm>
#include <cmath>

#include "onnx/importers.h"
#include "onnx/microsoft/attention.h"
#include "onnx/microsoft/packing.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

constexpr int64_t kLongestDistance = int64_t{1} << 20, kMostBuckets = int64_t{1} << 20;

// The bucket of a distance: near ones have one each, farther ones share buckets that grow by a factor, and
// all from `farthest` on have the last one. In FP32, as the kernels of T5 are, because a quotient decides a
// step.
int64_t bucket_of(int64_t distance, int64_t buckets, int64_t farthest) {
  const int64_t exact = buckets / 2;
  if (distance < exact) return distance;
  const float ratio = static_cast<float>(distance) / static_cast<float>(exact);
  const float span = std::log(static_cast<float>(farthest) / static_cast<float>(exact));
  const float step = std::log(ratio) / span * static_cast<float>(buckets - exact);
  return std::min(exact + static_cast<int64_t>(step), buckets - 1);
}

// Buckets of key positions minus query positions from -farthest to farthest. With both directions, keys
// behind the query have the second half of the buckets; else they have the bucket of distance 0.
std::vector<int64_t> buckets_by_offset(int64_t buckets, int64_t farthest, bool both) {
  std::vector<int64_t> all;
  const int64_t half = both ? buckets / 2 : buckets;
  for (int64_t offset = -farthest; offset <= farthest; ++offset) {
    if (offset <= 0) {
      all.push_back(bucket_of(-offset, half, farthest));
    } else {
      all.push_back(both ? half + bucket_of(offset, half, farthest) : 0);
    }
  }
  return all;
}

// 0, 1, ... of a length that an input says, as int64.
ValueId positions(NodeImport& node, size_t input, const std::string& name) {
  const ValueId zero = node.scalar(0, DType::Int64), one = node.scalar(1, DType::Int64);
  if (node.dtype(input) != DType::Int64) node.fail("its lengths must be int64");
  return node.add(Range{}, {zero, node.reshape(node.in(input), {}, name + "_length"), one}, name);
}

// inputs: table (buckets, H), which lies in memory as (H, buckets); numbers of queries and of keys. Output
// (1, H, queries, keys). Buckets of all offsets are a constant, so that only indices are computed.
Values import_relative_position_bias(NodeImport& node) {
  const int64_t farthest = node.required_integer("max_distance");
  const bool both = node.integer("is_bidirectional", 0) != 0;
  const Shape table = node.shape(0);
  if (table.size() != 2) node.fail("its table needs two dimensions (buckets, heads)");
  if (!table[0].is_constant()) throw_unsupported("the number of its buckets is not constant");
  const int64_t buckets = table[0].value(), smallest = both ? 4 : 2;
  if (buckets < smallest || buckets > kMostBuckets)
    node.fail("its table has " + std::to_string(buckets) + " buckets, expected " + std::to_string(smallest) +
              " or more");
  if (farthest <= buckets / smallest || farthest > kLongestDistance)
    node.fail("max_distance is " + std::to_string(farthest) + ", expected more than the " +
              std::to_string(buckets / smallest) + " distances with a bucket each, and at most " +
              std::to_string(kLongestDistance));
  const ValueId by_head = node.reshape(node.in(0), {table[1], table[0]}, "by_head");
  const ValueId offsets = node.constant(
      Tensor::from<int64_t>({2 * farthest + 1}, buckets_by_offset(buckets, farthest, both)), "buckets");
  const ValueId biases = node.add(Gather{.axis = 1}, {by_head, offsets}, "by_offset");
  const ValueId queries = positions(node, 1, "queries"), keys = positions(node, 2, "keys");
  const Dim query_count = node.shape_of(queries)[0], key_count = node.shape_of(keys)[0];
  const ValueId offset =
      node.pointwise(C::Sub, {keys, node.reshape(queries, {query_count, 1}, "query_column")}, "offset");
  const ValueId far = node.scalar(static_cast<double>(farthest), DType::Int64),
                back = node.scalar(static_cast<double>(-farthest), DType::Int64);
  const ValueId near =
      node.pointwise(C::Min, {node.pointwise(C::Max, {offset, back}, "not_before"), far}, "not_behind");
  const ValueId index = node.pointwise(C::Add, {near, far}, "index");
  const ValueId y = node.add(Gather{.axis = 1}, {biases, index}, "bias");
  return {node.reshape(y, {1, table[1], query_count, key_count}, "")};
}

// inputs: q (B, S, H * D) or without padding (tokens, H * D), its bias, biases of the scores (1, H, S, S),
// gate weights (D, G) and bias (G), factors (1, H, 1, 1), [token offsets (B, S)]. Output: the biases times
// u (r factor - 1) + 2 of each query, where u and r are the sigmoids of the sums of both halves of its gates.
Values import_gated_position_bias(NodeImport& node) {
  const int64_t heads = node.required_integer("num_heads");
  ValueId q = node.pointwise(C::Add, {node.in(0), node.in(1)}, "q_biased");
  if (node.has(6)) {
    if (node.rank(0) != 2) node.fail("with token offsets, q has two dimensions (tokens, width)");
    q = Packing(node, 6, node.shape(0)[0]).unpacked(q, "q_rows");
  }
  q = to_heads(node, q, heads, "q");
  const Shape s = node.shape_of(q), w = node.shape(3);
  const auto half = w.size() == 2 ? w[1].exact_div(2) : std::nullopt;
  if (!half) node.fail("its gate weights need two dimensions, the second of them even");
  if (node.rank(2) != 4) node.fail("the biases of its scores need four dimensions");
  const ValueId gates =
      node.pointwise(C::Add, {node.add(MatMul{}, {q, node.in(3)}, "gates"), node.in(4)}, "gates_biased");
  const ValueId halves = node.reshape(gates, {s[0], s[1], s[2], 2, *half}, "halves");
  const ValueId both =
      node.pointwise(C::Sigmoid, {node.reduce(ReduceKind::Sum, halves, {4}, false, "sums")}, "sigmoids");
  const ValueId u = node.slice(both, 3, 0, 1, "u"), r = node.slice(both, 3, 1, 2, "r");
  const ValueId one = node.scalar(1, node.dtype(0)), two = node.scalar(2, node.dtype(0));
  const ValueId inner =
      node.pointwise(C::Sub, {node.pointwise(C::Mul, {r, node.in(5)}, "scaled"), one}, "inner");
  const ValueId gate = node.pointwise(C::Add, {node.pointwise(C::Mul, {u, inner}, "gated"), two}, "gate");
  return {node.pointwise(C::Mul, {gate, node.in(2)})};
}

}  // namespace

std::vector<Importer> microsoft_position_bias_importers() {
  return {{"GatedRelativePositionBias", 1, kLatestOpset, import_gated_position_bias, kMicrosoftDomain},
          {"RelativePositionBias", 1, kLatestOpset, import_relative_position_bias, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
