// SPDX-License-Identifier: Apache-2.0
//
// The scales and zero points of weights with a scale per block (ir/block_grid.h), which the text form of a
// graph leaves out: an engine file that has no packed weights has them as blocks.
#pragma once

#include "base/json.h"
#include "ir/graph.h"
#include "plan/container.h"

namespace lathe {

// [[value, block of scales, block of zero points, or the only one of them]]; numbers of `graph` must live
// until the container is written.
Json block_numbers_json(const Graph& graph, ContainerWriter& blocks);
void read_block_numbers(const Json& json, Graph& graph, const ContainerReader& file);

}  // namespace lathe
