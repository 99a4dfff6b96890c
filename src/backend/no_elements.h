// SPDX-License-Identifier: Apache-2.0
//
// Tensors without elements. A layer whose results have none does nothing. A layer that makes elements out of
// none (the sum over an empty axis is 0, the product of [3, 0] and [0, 4] is twelve zeros) runs on the
// reference: kernels count on at least one step. A backend may have a family that is made for such layers.
#pragma once

#include <span>
#include <string_view>

#include "backend/tactic.h"

namespace lathe {

// The runner of a family for layers of which an operand, or a result, has no elements.
inline constexpr std::string_view kNoElementsRunner = "NoElements";

// An operand that holds data (not one that lists axes or sizes) has no elements at the shapes that the layer
// is tuned for. Then only views, the reference and kNoElementsRunner are offered: other tactics divide by
// extents when they choose their blocking, and there is nothing to be fast at. A loop may begin with nothing
// and grow.
bool has_empty_operand(const LayerQuery& query);
// Whether a family may be asked for its tactics of the layer.
bool may_list(std::string_view runner, const LayerQuery& query);

// The layer has elements to write, and an operand without any to read. Concat's kernels are made for that,
// and those of scatters without updates, which copy; bodies look themselves.
bool makes_elements_of_none(const Node& node, std::span<const Extents> inputs,
                            std::span<const Extents> outputs);
// It does, and a kernel of that runner cannot.
bool needs_reference(const Node& node, std::string_view runner, std::span<const Extents> inputs,
                     std::span<const Extents> outputs);

}  // namespace lathe
