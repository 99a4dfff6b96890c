// SPDX-License-Identifier: Apache-2.0
//
// The symbols that decide what a layer is prepared for.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace lathe {

// The names that attributes of a node have, and shapes and contents of its operands.
std::vector<std::string> symbols_of(const Graph& graph, const Node& node);

// The values of the symbols, -1 for one that has none yet: what a prepared node is looked up by.
std::vector<int64_t> shape_key(const std::vector<std::string>& symbols, const SymbolValues& values);

// All of the symbols have a value in both, and the same.
bool have_same_values(const std::vector<std::string>& symbols, const SymbolValues& one,
                      const SymbolValues& other);

}  // namespace lathe
