// SPDX-License-Identifier: Apache-2.0
//
// In which type a layer adds up what it sums, as "AccumulationType" of the layer information.
#pragma once

#include "backend/tactic.h"
#include "ir/graph.h"

namespace lathe {

// Undefined for a layer that sums nothing, and for one on the reference, which sums in more. The rule is the
// same on both backends: numbers of 8 and 16 bits are summed in FP32 whatever the layer reads and writes,
// bytes of integer grids in products in INT32, float64 and integers in their own type. Depthwise blocks have
// a tactic whose windows are summed in FP16.
DType sum_type(const Graph& graph, const Node& node, const Tactic& tactic);

}  // namespace lathe
