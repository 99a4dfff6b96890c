// SPDX-License-Identifier: Apache-2.0
//
// The n-grams of a TfIdfVectorizer's pool as a tree, whose edges are items and whose nodes say which column
// the n-gram that ends there has. The edges of all nodes are in one hash table, half full at most: an edge is
// at place_of(from, item) or in one of the places behind it, before the first that is free.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/op_other.h"

namespace lathe {

class GramTree {
 public:
  // The operator's rule has checked the lists.
  explicit GramTree(const TfIdfVectorizer& op);

  struct Edge {
    int64_t item = 0;
    int32_t from = 0, to = 0;  // nodes; to: 0 when the place is free, since no edge leads to the root
  };
  static uint64_t hash_of(int32_t from, int64_t item) {
    return ((static_cast<uint64_t>(item) + static_cast<uint64_t>(from) * kFromFactor) * kHashFactor) >> 32;
  }
  static constexpr uint64_t kFromFactor = 0x9E3779B97F4A7C15u, kHashFactor = 0xD6E8FEB86659FD93u;
  // Places for edges of a pool of so many items: a power of two.
  static int64_t place_count(const TfIdfVectorizer& op);

  const Edge* find(int32_t from, int64_t item) const {
    for (size_t at = place_of(from, item); edges_[at].to != 0; at = (at + 1) & (edges_.size() - 1))
      if (edges_[at].from == from && edges_[at].item == item) return &edges_[at];
    return nullptr;
  }
  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<int64_t>& columns() const { return columns_; }  // of each node; -1: no n-gram ends there

 private:
  size_t place_of(int32_t from, int64_t item) const {
    return static_cast<size_t>(hash_of(from, item)) & (edges_.size() - 1);
  }
  void add(const int64_t* items, int64_t length, int64_t column);

  std::vector<Edge> edges_;
  std::vector<int64_t> columns_ = {-1};
};

}  // namespace lathe
