// SPDX-License-Identifier: Apache-2.0
//
// A copy between two strided views of the same extents: what transposes, slices, concatenations, splits,
// expansions and format changes are. Dims are sorted by the output's strides and merged; then the innermost
// loops are row copies, tile transpositions, or single elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "ir/shape.h"

namespace lathe::cpu {

class StridedCopy {
 public:
  // Strides in elements of `element_bytes` (1, 2, 4 or 8); those of the input may be zero or negative.
  StridedCopy(int64_t element_bytes, const Extents& extents, const Extents& in_strides,
              const Extents& out_strides);

  // Copies this member's share. `in` and `out` point at the element with all indices zero.
  void run(const void* in, void* out, const Worker& worker) const;
  double nanoseconds() const;  // a rough estimate on one thread

 private:
  struct Dim {
    int64_t extent, in, out;  // strides in elements
  };
  void run_rows(const std::byte* in, std::byte* out, const Worker& worker) const;
  void run_tiles(const std::byte* in, std::byte* out, const Worker& worker) const;
  void offsets(int64_t index, int64_t& in, int64_t& out) const;  // of the outer dims

  int64_t bytes_ = 4;
  std::vector<Dim> outer_;  // all but the innermost ones
  int64_t outer_count_ = 1;
  Dim row_{1, 1, 1};     // the contiguous dim of the output
  Dim across_{1, 1, 1};  // tiles: the contiguous dim of the input
  bool tiles_ = false;
};

}  // namespace lathe::cpu
