// SPDX-License-Identifier: Apache-2.0
//
// A pointwise layer as one program, for backends that run or generate it as one loop.
#pragma once

#include "ir/graph.h"

namespace lathe {

// The operator (Pointwise, PointwiseChain, Cast, Reformat or BatchNorm) and its epilogue over the node's inputs, in their order.
PointwiseProgram whole_program(const Node& node);

}  // namespace lathe
