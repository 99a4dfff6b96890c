// SPDX-License-Identifier: Apache-2.0
#include "backend/gram_tree.h"

#include <bit>

namespace lathe {

int64_t GramTree::place_count(const TfIdfVectorizer& op) {
  return static_cast<int64_t>(std::bit_ceil(2 * op.pool.size() + 2));
}

GramTree::GramTree(const TfIdfVectorizer& op) {
  edges_.resize(static_cast<size_t>(place_count(op)));
  size_t number = 0;
  const auto lengths = static_cast<int64_t>(op.ngram_counts.size());
  for (int64_t length = 1; length <= lengths; ++length) {
    const auto at = static_cast<size_t>(length - 1);
    const int64_t begin = op.ngram_counts[at],
                  end = length < lengths ? op.ngram_counts[at + 1] : static_cast<int64_t>(op.pool.size());
    for (int64_t gram = begin; gram < end; gram += length, ++number)
      if (length >= op.min_gram && length <= op.max_gram)
        add(op.pool.data() + gram, length, op.ngram_indexes[number]);
  }
}

void GramTree::add(const int64_t* items, int64_t length, int64_t column) {
  int32_t node = 0;
  for (int64_t i = 0; i < length; ++i) {
    if (const Edge* edge = find(node, items[i])) {
      node = edge->to;
      continue;
    }
    size_t at = place_of(node, items[i]);
    while (edges_[at].to != 0) at = (at + 1) & (edges_.size() - 1);
    edges_[at] = {items[i], node, static_cast<int32_t>(columns_.size())};
    node = edges_[at].to;
    columns_.push_back(-1);
  }
  columns_[static_cast<size_t>(node)] = column;
}

}  // namespace lathe
