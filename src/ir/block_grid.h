// SPDX-License-Identifier: Apache-2.0
//
// Grids of weights with a scale per block: some indices of the axis that follow one another share one, for
// each index of the other axes. Such a Quantization has the scales (and zeros) of a tensor whose extent along
// the axis is that many times smaller, in the order of its elements: of weights [64, 10] with the axis 0 and
// blocks of 32, 20 scales. So a grid has blocks when it has another number of scales than its axis has
// indices. (Where both numbers are equal, 32 columns and blocks of 32, the weights are on no grid.) Integers
// may be Int4 and UInt4.
//
// The text form of a graph leaves the numbers out: no scales, no zeros. A kernel packs them with the weights;
// an engine file without packed weights has them apart (plan/block_numbers.h).
#pragma once

#include <optional>

#include "ir/quantization.h"

namespace lathe {

// Indices of the axis with one scale; 0: the grid has no blocks, or left the numbers out.
int64_t block_of(const Quantization& grid, const Shape& shape);
bool has_blocks(const Quantization& grid, const Shape& shape);
// Without scales and zeros, if it has blocks.
Quantization without_numbers(Quantization grid, const Shape& shape);
// Of a tensor whose axes are permuted.
Quantization transposed(const Quantization& grid, const Shape& shape, const std::vector<int64_t>& perm);

// Of indices [start, start + length) of `axis`; nullopt along the axis of blocks.
std::optional<Quantization> sliced(const Quantization& grid, const Shape& shape, int64_t axis, int64_t start,
                                   int64_t length);

}  // namespace lathe
