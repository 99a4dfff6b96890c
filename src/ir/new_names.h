// SPDX-License-Identifier: Apache-2.0
//
// The sizes that running a node finds.
#pragma once

#include <set>
#include <string>

#include "ir/graph.h"

namespace lathe {

// The data-dependent names in the dims of the node's results that no dim of an operand has. Some may be names
// that the operator itself has: it then reads a size that another node finds (`Fill
// {shape=[NonZero.count]}`).
std::set<std::string> new_names(const Graph& graph, const Node& node);

}  // namespace lathe
