// SPDX-License-Identifier: Apache-2.0
//
// Where every value of a final graph lives. Graph inputs and outputs are the caller's memory; the rest shares
// one arena by lifetime, at the largest shapes of the optimization profile.
#pragma once

#include <span>
#include <vector>

#include "backend/program.h"

namespace lathe {

// The graph must be free of view conflicts (see views.h); internal error otherwise.
MemoryPlan plan_memory(const Graph& graph, std::span<const Choice> choices, const SymbolRanges& ranges);

// Proves that a plan is right for one set of symbol values: runs the graph with tokens instead of data and
// checks that each layer finds its inputs whole, and that nothing lies outside the arena. Throws Internal
// naming layer and value. Independent of the planner; slow (it walks every byte in units of the common
// divisor of sizes and offsets).
void check_memory_plan(const Graph& graph, std::span<const Choice> choices, const MemoryPlan& plan,
                       const SymbolValues& values);

}  // namespace lathe
