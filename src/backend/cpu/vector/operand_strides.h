// SPDX-License-Identifier: Apache-2.0
//
// Storage order and strides: what a kernel needs to walk a tensor in the order in which it lies in memory,
// and to find the elements of a broadcast operand on the way.
#pragma once

#include "ir/format.h"
#include "ir/shape.h"
#include "ir/tensor.h"

namespace lathe::cpu {

// The dims of a tensor's storage from the outermost to the contiguous one. A blocked tensor has one dim more:
// its channel dim appears as blocks and, last, as positions in a block (padding included).
struct StorageWalk {
  Extents extents;
};
StorageWalk storage_walk(const Extents& extents, const Format& format);

// Per dim of storage_walk(result), how far apart an operand's elements are; 0 where it is broadcast. The
// operand's extents broadcast to the result's by numpy's rule; its format is the result's, or linear. A
// linear operand with a channel dim fits a blocked result only when the channels fill their blocks.
Extents operand_strides(const Extents& operand, const Format& operand_format, const Extents& result,
                        const Format& result_format);

// A constant as FP32 in the form that operand_strides() wants for a result in `format`: blocked (and padded
// with zeros) when the result is blocked and the constant has channels, else linear. `format_out` says which.
Tensor constant_operand(const Tensor& constant, const Extents& result, const Format& format,
                        Extents& extents_out, Format& format_out);

}  // namespace lathe::cpu
