// SPDX-License-Identifier: Apache-2.0
//
// What the attention operators of com.microsoft with projections, pasts or packed rows share: from rows to
// heads, caches, and what none of them supports.
#pragma once

#include <functional>

#include "onnx/microsoft/attention.h"

namespace lathe::onnx {

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

// `wants_scores`: with the scores before the softmax.
Attended attend(NodeImport& node, const Parts& parts, bool wants_scores = false);

// The widths of q, k and v, which together are `all`.
Shape hidden_sizes(const NodeImport& node, const Dim& all);

// Columns [from, to) of the weights of all three products.
using WeightColumns = std::function<ValueId(const Dim& from, const Dim& to, const std::string& name)>;
// x (..., D) times weights (D, Q + K + V), plus a bias, as three products.
Rows project(NodeImport& node, ValueId x, const Dim& width, const WeightColumns& weights, ValueId bias);
Rows project(NodeImport& node, ValueId x, ValueId weights, ValueId bias);

void split_heads(NodeImport& node, const Rows& rows, Parts& parts);
// past (2, B, H, P, D): keys, then values.
void read_joined_past(NodeImport& node, size_t input, Parts& parts);
ValueId joined_present(NodeImport& node, const Attended& a);

void refuse_shared_buffer(const NodeImport& node);
void refuse_beams(const NodeImport& node, size_t cache_indirection);
void refuse_rotary(const NodeImport& node);

// The bias of q, k and v in a row; those that an operator does not add any more are left out.
class Biases {
 public:
  Biases(NodeImport& node, ValueId all) : node_(node), all_(all) {}

  // Adds the next part to rows (B, S, H * D).
  ValueId to_rows(ValueId rows, const std::string& name);
  // The same for heads (B, H, S, D).
  ValueId to_heads(ValueId heads, const std::string& name);

 private:
  ValueId next(const Dim& size, const std::string& name);

  NodeImport& node_;
  ValueId all_;
  Dim from_ = 0;
};

}  // namespace lathe::onnx
