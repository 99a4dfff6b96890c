// SPDX-License-Identifier: Apache-2.0
//
// The algebra of shuffles. A chain of reshapes and transposes moves elements by a permutation of factors
// ("atoms") of the source's dims: (B, S, 768) -> reshape (B, S, 12, 64) -> transpose -> (B, 12, S, 64) has
// the atoms B, S, 12, 64 in the order B, 12, S, 64. Composing chains is then bookkeeping, and the shortest
// equivalent chain (at most reshape, transpose, reshape) can be read off. Dims of size 1 have no atoms.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/edit.h"

namespace lathe {

class ShuffleMap {
 public:
  explicit ShuffleMap(const Shape& source);

  void transpose(const Ints& perm);
  // False when the target's dims are no products of (parts of) atoms in order; the map is then unusable.
  bool reshape(const Shape& target);
  // The map of the node (ReshapeOp with known shape, or Transpose) is applied on top; false when it is
  // neither.
  bool apply(const Graph& graph, NodeId node);

  const Shape& source() const { return source_shape_; }
  const Shape& result() const { return result_shape_; }
  // Atoms of each result dim and each source dim, outermost first. Atom numbers index sizes().
  const std::vector<std::vector<int>>& result_atoms() const { return result_; }
  const std::vector<std::vector<int>>& source_atoms() const { return source_; }
  const std::vector<Dim>& sizes() const { return sizes_; }
  // Where the atom stands in the source, counted over all atoms.
  std::vector<int> source_positions() const;

  // The shortest chain: reshape to `before` (when set), transpose by `perm` (when set), reshape to result()
  // (when set). Of two that are as short, the one that transposes an image with its spatial dims apart: it
  // may be a view.
  struct Chain {
    std::optional<Shape> before;
    std::optional<Ints> perm;
    bool after = false;
    int length() const { return before.has_value() + perm.has_value() + after; }
  };
  Chain shortest() const;
  // Appends the shortest chain; returns `source` itself when nothing is to be done.
  // Name and origins by value: what they were read from may move while nodes are added.
  ValueId emit(GraphEditor& editor, ValueId source, std::string name, std::vector<Origin> origins,
               NodeId before) const;

  // The result's dim `axis` takes only index `index` (and goes away when `drop`). Gives the part of one
  // source dim that is then read, nullopt when that is no contiguous part; afterwards this is the map of that
  // part.
  struct Part {
    int64_t axis = 0;
    Dim start, length;
  };
  std::optional<Part> select(int64_t axis, int64_t index, bool drop);

 private:
  void split_atom(int atom, const Dim& outer, const Dim& inner);
  std::optional<Chain> chain_of(const std::vector<std::vector<int>>& groups,
                                const std::vector<int>& positions) const;
  std::vector<std::vector<int>> merged_groups(const std::vector<int>& positions) const;

  Shape source_shape_, result_shape_;
  std::vector<Dim> sizes_;
  std::vector<std::vector<int>> source_, result_;
};

// Product of the atoms' sizes; 1 for none.
Dim atoms_size(const std::vector<int>& atoms, const std::vector<Dim>& sizes);

// A reshape with known shape or a transpose, without epilogue.
bool is_shuffle(const Node& node);
// The longest chain of shuffles that ends in `value`, first node first; only nodes whose results nobody else
// reads (`value` itself may have many readers).
std::vector<NodeId> shuffle_chain(const Graph& graph, ValueId value);

}  // namespace lathe
