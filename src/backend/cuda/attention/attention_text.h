// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of attention share: how the layer's operands lie, and the text that masks a score.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

inline constexpr int64_t kLargestHead = 256;

struct AttentionSizes {
  Dim batch, heads, shared_heads, queries, keys;  // shared: of keys and values
  int64_t width = 0, value_width = 0;
};

AttentionSizes attention_sizes(const LayerQuery& query, const Attention& op);

// Types of keys, values and mask for queries of `type`; refuses what no kernel of ours reads.
void list_attention_operands(const LayerQuery& query, DType type, const AttentionSizes& sizes,
                             Tactic& tactic);

struct AttentionNames {
  std::string queries, keys, heads;
  std::string key_head;                       // the head of keys and values that head h reads
  std::vector<std::string> batch, head, row;  // strides of q, k, v and the result
  bool has_mask = false;
  bool mask_has_rows = false;  // what is masked differs from row to row
  bool mask_pairs = false;     // mask_pair(row, key, m) reads the values of two keys at once
};

AttentionNames attention_names(KernelBuilder& b, const LayerQuery& query, const Attention& op);
// Defines masked(score, row, key): the score of head h of batch b with the mask, in units of log 2, or
// -infinity; and mask_pair() where the names say so.
void define_masked(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, const Attention& op,
                   AttentionNames& names);

}  // namespace lathe::cuda
