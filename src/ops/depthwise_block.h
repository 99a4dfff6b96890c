// SPDX-License-Identifier: Apache-2.0
//
// The convolutions that a DepthwiseBlock stands for, in order.
#pragma once

#include <functional>
#include <vector>

#include "ir/op.h"

namespace lathe {

struct BlockPart {
  Conv conv;
  PointwiseProgram epilogue;  // between this part and the next
  size_t weights = 0;         // the block's input with the weights; the bias is the next one
};

// `channels` of the depthwise part; `has_input` says which of the block's inputs are there.
std::vector<BlockPart> block_parts(const DepthwiseBlock& op, int64_t channels,
                                   const std::function<bool(size_t)>& has_input);

}  // namespace lathe
