// SPDX-License-Identifier: Apache-2.0
//
// Clamps in dims: the min and max that ONNX's rules put around the bounds of slices, and where they are idle.
//
// `table[:, :seq]` of 512 rows gives min(seq, 512) rows. A profile whose largest seq is 512 makes of it seq,
// which is equal to the other dims called seq; without such a profile the clamp stays, and shapes that only
// fit without it are an error of the run.
#pragma once

#include <map>
#include <optional>

#include "ir/dim.h"

namespace lathe {

// The bounds of a dim over the ranges; nullopt when a symbol has no range or the numbers do not fit into 64
// bits.
std::optional<Interval> find_bounds(const Dim& dim, const SymbolRanges& ranges);

// The upper bound over the ranges; the largest number of 64 bits for what is above it.
int64_t largest(const Dim& dim, const SymbolRanges& ranges);

// The data-dependent names in a dim, with what bounds each.
std::map<std::string, Dim, std::less<>> data_dependent_uppers(const Dim& dim);

// The dim without the operands of min and max that never win inside the ranges. Symbols without a range keep
// their clamps.
Dim without_idle_clamps(const Dim& dim, const SymbolRanges& ranges);

// A sum of products of symbols: no min, max or division.
bool is_polynomial(const Dim& dim);

}  // namespace lathe
