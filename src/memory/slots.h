// SPDX-License-Identifier: Apache-2.0
//
// Values whose size only a run finds and little bounds (backend/open_size.h) lie in slots, which grow. Values
// share a slot when one is not read any more before the other is written.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "memory/lifetimes.h"
#include "memory/views.h"

namespace lathe {

struct GrownValue {
  ValueId value = kNoValue;
  Lifetime life;  // of an output: to the end of the run and behind
};

// The roots among a graph's values that are placed in slots, in the order of their first use.
std::vector<GrownValue> find_grown_values(const Graph& graph, const ViewAnalysis& views,
                                          const std::vector<Lifetime>& lives, const SymbolRanges& ranges);

// The slot of each: as few as can be, because no value comes before one that began earlier.
std::vector<int> share_slots(const std::vector<GrownValue>& values);

}  // namespace lathe
