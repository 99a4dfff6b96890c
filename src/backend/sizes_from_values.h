// SPDX-License-Identifier: Apache-2.0
//
// Sizes that are data, but known before their layer runs: those of Reshape, Expand, Tile, Range or Resize
// follow from the values of small operands by the operator's shape rule. (NonZero's do not.)
#pragma once

#include <functional>
#include <span>
#include <string>

#include "ir/graph.h"

namespace lathe {

// Elements of a value that may say how large a result is: few numbers, which the host reads or computes.
inline constexpr int64_t kMostSizeElements = 64;

// Adds the values of those of the `wanted` names in the shapes of the node's results that follow; false when
// one does not. `symbols` has the values of all other dims, `read` gives the values of an operand. Throws
// Input when values do not fit the operator, or give more than the graph says at most.
bool find_sizes_from_values(const Graph& graph, const Node& node, std::span<const std::string> wanted,
                            const std::function<Tensor(ValueId)>& read, SymbolValues& symbols);

}  // namespace lathe
