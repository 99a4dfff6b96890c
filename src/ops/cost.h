// SPDX-License-Identifier: Apache-2.0
//
// What one run of a layer must do at least: operations, and bytes that go in and out. A report divides
// measured time by it.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace lathe {

struct LayerCost {
  double flops = 0;  // multiply and add count as two
  int64_t bytes_read = 0, bytes_written = 0;
};

// Data-dependent dims count with their upper bound. Throws Input when a symbol has no value.
LayerCost layer_cost(const Graph& graph, NodeId node, const SymbolValues& symbols);

}  // namespace lathe
