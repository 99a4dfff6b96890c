// SPDX-License-Identifier: Apache-2.0
//
// A pointwise layer as one program, for backends that run or generate it as one loop.
#pragma once

#include "ir/graph.h"

namespace lathe {

// The operator (Pointwise, PointwiseChain, Cast, Reformat, BatchNorm, QuantizeLinear or DequantizeLinear
// without blocks) and its epilogue over the node's inputs, in their order. Integers of at most 16 bits that a
// (de)quantisation reads are numbers of FP32 in it, and what a quantisation stores lies in the range of its
// type.
PointwiseProgram whole_program(const Node& node);

// QuantizeLinear or DequantizeLinear with one scale, or one for each index of an axis, and no absent operand.
bool is_plain_quantization(const Node& node);

// The shape with which an input of such a node broadcasts to the result: parameters of BatchNorm are vectors
// of channels, those of a quantisation vectors along its axis, and not along the last dim.
Shape operand_shape(const Graph& graph, const Node& node, size_t input);

}  // namespace lathe
