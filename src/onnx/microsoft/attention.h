// SPDX-License-Identifier: Apache-2.0
//
// What the attention operators of com.microsoft have in common: heads out of rows, masks in all their forms,
// and the core operator (or products and a softmax where that cannot say it).
#pragma once

#include <string>
#include <string_view>

#include "onnx/import_node.h"

namespace lathe::onnx {

class AttentionWriter {
 public:
  // `q` (B, H, S, D), `k` and `v` (B, G, T, D), H a multiple of G. A scale of 0 is 1 / sqrt(D).
  AttentionWriter(NodeImport& node, ValueId q, ValueId k, ValueId v, float scale);

  // --- what may be attended. All of these combine.
  // A number added to the scores, broadcast to (B, H, S, T).
  void add_bias(ValueId bias);
  // Integers that are 0 where a score becomes `filter` smaller: (B, T), (B, S, T), or (B, 1, M, M) with M at
  // least S and T. In one dimension: the number of keys (B); or their ends and then their starts (2 B); or
  // numbers first of 3 B + 2.
  void add_mask(ValueId mask, float filter);
  // Keys behind the query's own position are out of sight; the first query stands at `past`, a dim or a value
  // (B, 1, 1, 1).
  void be_causal(const Dim& past);
  void be_causal(ValueId past);
  // Keys from `end` on, a value (B, 1, 1, 1), are out of sight.
  void end_at(ValueId end);
  // ... and keys more than `window` - 1 positions before it.
  void be_local(ValueId past, int64_t window);

  float softcap = 0;
  // Each head's softmax has one more score (H) that nothing is attended for: kNoValue, or a zero with
  // `smooth`.
  ValueId sink = kNoValue;
  bool smooth = false;

  // The result (B, S, H * D). `scores` and `weights`: the scores before and behind the softmax, when someone
  // wants them.
  ValueId write();
  ValueId write_scores();
  ValueId scores = kNoValue, weights = kNoValue;

 private:
  ValueId keys(const std::string& name);  // 0, 1, ... (1, 1, 1, T)
  ValueId positions(ValueId past);        // of the queries: (B or 1, 1, S, 1)
  void allow(ValueId condition);
  ValueId mask_of_ends(ValueId mask, const Shape& shape);
  ValueId mask();  // for the core operator, or none
  ValueId rows(ValueId y);
  ValueId softmax_with_sink(ValueId biased);

  NodeImport& node_;
  ValueId q_, k_, v_;
  float scale_;
  bool causal_ = false;  // without a past, by the core operator
  ValueId bias_ = kNoValue, allowed_ = kNoValue;
};

// (B, S, H * D) to (B, H, S, D).
ValueId to_heads(NodeImport& node, ValueId rows, int64_t heads, const std::string& name);
// past and new ones along the axis of positions (2); `past` may be absent.
ValueId append_past(NodeImport& node, ValueId past, ValueId now, std::string_view name);
// 0, 1, ... n - 1 as int64 of `shape`.
ValueId count_up(NodeImport& node, const Dim& n, Shape shape, const std::string& name);

}  // namespace lathe::onnx
