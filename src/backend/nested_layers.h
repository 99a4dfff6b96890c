// SPDX-License-Identifier: Apache-2.0
//
// The layers of the bodies of If, Loop and Scan, in one order for all who speak of them: body by body, node
// by node, the layers of a nested operator right behind it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/program.h"

namespace lathe {

struct NestedLayer {
  std::string name;  // of the layer that holds the body, which body, and the node: "loop/body/conv"
  const Graph* graph = nullptr;
  NodeId node = kNoNode;
  const Tactic* tactic = nullptr;  // null: the backend chose it when it made the kernel
};

// How many layers the bodies of an operator have, nested ones included.
size_t nested_count(const Op& op);

// Layers of a graph and of its bodies.
size_t timed_count(const Graph& graph);

// The times of a profiled run (Execution::run_profiled), which has those of nested layers behind all others,
// with each layer in front of its nested ones. It counts without them: the sum is the run's.
std::vector<double> in_order_of_layers(const Graph& graph, std::span<const double> time_ms);

// Those of one layer with its tactic, which outlives the result.
std::vector<NestedLayer> nested_layers(const Node& layer, const Tactic& tactic);

}  // namespace lathe
