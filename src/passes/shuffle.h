// SPDX-License-Identifier: Apache-2.0
//
// A chain of Reshapes and Transposes as one permutation of factors ("atoms").
//
// The input's dims are split into atoms, as finely as the chain needs: for [S, B*12*64] -> [S, B*12, 64] -> ... the atoms are
// S, B, 12, 64. A Transpose reorders them, a Reshape regroups them. Chains that end in the same order and shape are equal,
// so the shortest way to write it can be chosen.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace lathe {

class Shuffle {
 public:
  explicit Shuffle(const Shape& input);

  // False (and the shuffle is unusable) when the dims cannot be factored into common atoms.
  bool reshape(const Shape& shape);
  void transpose(const Ints& perm);
  // Applies a Reshape (attribute form) or Transpose; false for others.
  bool apply(const Graph& graph, NodeId node);

  // The result's dim `axis` takes only index `index`; the dim becomes 1 (removed when `drop`). Gives the input's dim and
  // the part of it that is read; nullopt when that is no contiguous part. Then this is the shuffle of that part.
  struct Part {
    int64_t axis = 0;
    Dim start, length;
  };
  std::optional<Part> select(int64_t axis, int64_t index, bool drop);

  // The operators that do it, at most Reshape, Transpose, Reshape; empty when nothing is to do.
  std::vector<Op> shortest() const;
  const Shape& output() const { return output_; }

 private:
  bool refine_to(const Shape& shape);
  std::vector<Op> through_merged_atoms() const;
  std::optional<std::vector<Op>> through_input_dims() const;
  std::optional<std::vector<Op>> through_output_dims() const;
  std::vector<Op> assemble(const Shape& before, const Ints& perm) const;
  void split_atom(size_t atom, const Dim& outer, const Dim& inner);

  Shape input_, output_;
  std::vector<Dim> atoms_;                 // in the input's memory order, none is 1
  std::vector<std::vector<size_t>> from_;  // the atoms of each input dim
  std::vector<std::vector<size_t>> to_;    // the atoms of each output dim, in the output's order
};

// What the operators cost: a Transpose moves data, a Reshape does not.
int shuffle_cost(const std::vector<Op>& ops);

}  // namespace lathe
