// SPDX-License-Identifier: Apache-2.0
//
// Which nodes of a graph go into one engine.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lathe::onnxruntime_ep {

// A node as far as groups are concerned: the values that it reads and makes, by name.
struct NodeEdges {
  std::vector<std::string> reads, makes;
};

// The supported nodes in groups, by their numbers: no path from a node of a group to another one of it leads
// through a node outside of it, and all nodes are one group when all are supported. `nodes` in topological
// order.
std::vector<std::vector<size_t>> group_nodes(const std::vector<NodeEdges>& nodes,
                                             const std::vector<bool>& supported);

}  // namespace lathe::onnxruntime_ep
