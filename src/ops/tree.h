// SPDX-License-Identifier: Apache-2.0
//
// The tables of a TreeEnsemble, checked: every number is in range and every walk ends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/op.h"
#include "ir/tensor.h"

namespace lathe {

struct TreeTables {
  std::vector<int64_t> features, modes, children;  // per node; two children each
  std::vector<double> thresholds;
  std::vector<int64_t> roots;         // per tree
  std::vector<int64_t> leaf_begins;   // per leaf, and the end
  std::vector<int64_t> leaf_targets;  // per weight
  std::vector<double> leaf_weights;

  int64_t node_count() const { return static_cast<int64_t>(features.size()); }
  int64_t leaf_count() const { return static_cast<int64_t>(leaf_begins.size()) - 1; }
  int64_t highest_feature() const;  // -1 without nodes
};

// `inputs`: those of the operator, with x first (which is not read). Throws Input where the tables contradict
// themselves.
TreeTables read_tree_tables(const TreeEnsemble& op, std::span<const Tensor> inputs);

// Whether a row whose feature is `x` goes to the first child.
bool goes_to_first(int64_t mode, double x, double threshold);

}  // namespace lathe
