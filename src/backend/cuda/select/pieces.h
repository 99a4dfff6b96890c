// SPDX-License-Identifier: Apache-2.0
//
// Numbering of the elements of a list that have a property (not zero, first of their kind), in order, by
// several blocks: a first kernel counts them by pieces of the list, and a second one adds up the counts in
// front of its own piece and goes through that, 1,024 elements at a time.
#pragma once

#include "backend/cuda/codegen/counting.h"

namespace lathe::cuda {

struct Pieces {
  explicit Pieces(const Dim& elements);
  Dim bytes() const { return pieces * Dim(4); }  // of the counts

  // Whole bodies of kernels; `counts` is where the counts lie in scratch memory, `has` an expression of `i`.
  // The kernel has add_counting().
  void count(KernelBuilder& b, const std::string& has, const Dim& counts) const;
  // Runs `then` for each element: statements that know i, `set` (it has the property), `at` (how many in
  // front of it have it), and `total`. `once` runs in one thread of the layer.
  void number(KernelBuilder& b, const std::string& has, const Dim& counts, const std::string& then,
              const std::string& once) const;

  Dim elements, pieces, length;

 private:
  void begin(KernelBuilder& b) const;
};

}  // namespace lathe::cuda
