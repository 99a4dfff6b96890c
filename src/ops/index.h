// SPDX-License-Identifier: Apache-2.0
//
// Index tensors: what Gather, Scatter and their relatives check in common.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/tensor.h"
#include "ops/op_def.h"

namespace lathe {

// Indices are int32 or int64. Throws Input.
void check_index_type(const Value& indices);

// All indices, negative ones counted from the end of a dim of `extent`. Throws Input for those outside
// [-extent, extent).
std::vector<int64_t> wrapped_indices(const Tensor& indices, int64_t extent);

// The same for indices of which only the contents are known, where they and the dim are constant.
void check_known_indices(const std::optional<Shape>& indices, const Dim& dim);

// GatherElements and ScatterElements: same rank, and no dim of `inner` but that of `axis` larger than that of
// `outer`.
void check_fits_inside(const Shape& inner, const Shape& outer, size_t axis);
void check_fits_inside(const Extents& inner, const Extents& outer, size_t axis);

// GatherND and ScatterND: the last dim of `indices` holds an address into the dims of x after the batch dims.
// Returns how many leading dims of x (batch dims included) an address fixes. Throws Input when ranks do not
// allow it.
int64_t addressed_dims(const Shape& indices, const Shape& x, int64_t batch_dims);

struct BlockIndices {
  size_t addressed_dims = 0;    // leading dims of x that an address fixes, batch dims included
  int64_t block_size = 1;       // elements that one address stands for
  std::vector<int64_t> blocks;  // number of the block, one per address, in the order of the addresses
};
BlockIndices block_indices(const Tensor& indices, const Extents& x, int64_t batch_dims);

}  // namespace lathe
