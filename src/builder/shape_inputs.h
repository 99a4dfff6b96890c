// SPDX-License-Identifier: Apache-2.0
//
// Inputs whose elements decide shapes: the repeats of a Tile, the sizes of a Resize. Without more, a run
// finds the sizes that follow from them. Marked as shape tensors (a value's `contents`) they are dims like
// those of shapes: a profile gives their range, memory is planned for it, and layers are tuned at their opt
// values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "builder/network.h"

namespace lathe {

// In the order of the graph's inputs; those that are marked are not among them.
std::vector<std::string> find_shape_inputs(const Graph& graph);

// An element that is negative (Reshape's -1) must be the same in min, opt and max, and becomes a constant.
// Throws Input.
void mark_shape_input(Graph& graph, std::string_view input, const ShapeRange& elements);

// Marks those that the profiles give values for.
void mark_shape_inputs(Network& network, const std::vector<OptimizationProfile>& profiles);

}  // namespace lathe
