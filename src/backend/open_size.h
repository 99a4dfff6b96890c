// SPDX-License-Identifier: Apache-2.0
//
// Sizes that only a run finds and that little bounds: a Range over data may have 2^31 elements, and mostly
// has ten. Memory for them is not planned: an execution takes it when the run knows how much
// (Placement::Kind::Grown).
#pragma once

#include <span>

#include "ir/graph.h"

namespace lathe {

// What only a run finds is planned in the arena up to so many bytes.
inline constexpr double kMostPlannedBytes = 64 << 20;

bool has_open_size(const Value& value, const SymbolRanges& ranges);

// What is assumed of them where a layer is tuned: names in the shapes of open values get extents with which
// each of the values fits into kMostPlannedBytes. Values of a real run never come from here.
void assume_open_sizes(const Graph& graph, std::span<const ValueId> values, const SymbolRanges& ranges,
                       SymbolValues& symbols);

}  // namespace lathe
