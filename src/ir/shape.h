// SPDX-License-Identifier: Apache-2.0
//
// Shapes: dims that may be symbolic, and concrete extents at run time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dim.h"

namespace lathe {

using Shape = std::vector<Dim>;
using Extents = std::vector<int64_t>;  // concrete

bool is_static(const Shape& shape);
Extents evaluate(const Shape& shape, const SymbolValues& values);
// Only for static shapes.
Extents to_extents(const Shape& shape);
Shape to_shape(const Extents& extents);
int64_t element_count(const Extents& extents);
Dim element_count(const Shape& shape);
// Row-major strides in elements.
Extents row_major_strides(const Extents& extents);

// numpy broadcasting. A symbolic dim against 1 gives the symbolic dim; two different symbolic dims broadcast
// to the first when neither can be 1 is unknown: they are taken as equal (checked at run time). Throws Input
// when impossible.
Shape broadcast(const Shape& a, const Shape& b);
Extents broadcast(const Extents& a, const Extents& b);

// Axis in [-rank, rank) to [0, rank); throws Input naming `what`.
int64_t normalize_axis(int64_t axis, int64_t rank, std::string_view what);

std::string to_string(const Shape& shape);      // "[batch, 3, 224, 224]"
std::string to_string(const Extents& extents);  // "1x3x224x224", "scalar" for rank 0

}  // namespace lathe
