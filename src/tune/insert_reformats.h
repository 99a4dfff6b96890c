// SPDX-License-Identifier: Apache-2.0
//
// Writes the choice into the graph: values get the types and formats that their layers store, Reformat nodes
// stand where neighbours disagree, and copies where a view cannot be placed.
#pragma once

#include "base/observer.h"
#include "tune/choose.h"
#include "tune/tune.h"

namespace lathe {

// `chosen` has one state per layer in graph order. `in_body`: nothing is placed inside of something else, so
// no view fails.
TunedGraph insert_reformats(const Graph& graph, const std::vector<LayerState>& chosen,
                            ReformatCosts& reformats, const SymbolRanges& ranges, Observer& observer,
                            bool in_body = false);

// Every value's type equals what its writer stores and its readers expect. Throws Internal.
void verify_choices(const Graph& graph, const std::vector<Choice>& choices);

}  // namespace lathe
