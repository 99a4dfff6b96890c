// SPDX-License-Identifier: Apache-2.0
//
// Layers that may also run as one. An optional pass has fused them in a copy of the graph; here the fused
// layer becomes one more state of its parts, so that the choice weighs it against them together with all
// formats and reformats: the last part's state costs what the fused layer takes, the others nothing, and the
// values between them have a "type" that only the states of this fused layer agree on.
#pragma once

#include <vector>

#include "tune/choose.h"

namespace lathe {

struct Alternative {
  std::vector<size_t> parts;  // positions in the graph's order; the last one gives the fused layer's results
  NodeId fused = kNoNode;     // in the copy
};

// `fused` is a copy of `graph` in which some layers were replaced by one; nodes and values that are in both
// have the same ids.
std::vector<Alternative> find_alternatives(const Graph& graph, const Graph& fused);

// Adds to the parts' states those of alternative `number`, one for each of the fused layer's states.
// `boundary_ms`: what a boundary between two layers costs that neither's time shows.
void add_states(const Graph& graph, const Graph& fused, const Alternative& alternative, int number,
                double boundary_ms, const std::vector<LayerState>& fused_states,
                std::vector<std::vector<LayerState>>& states);

// Do the parts of each alternative agree on it?
bool is_consistent(const std::vector<Alternative>& alternatives, const std::vector<LayerState>& chosen);

// The graph with the chosen alternatives in place of their parts, and a state for each of its layers in
// order.
struct ChosenGraph {
  Graph graph;
  std::vector<LayerState> chosen;
};
ChosenGraph take_alternatives(const Graph& graph, const Graph& fused,
                              const std::vector<Alternative>& alternatives,
                              const std::vector<std::vector<LayerState>>& fused_states,
                              const std::vector<LayerState>& chosen);

}  // namespace lathe
