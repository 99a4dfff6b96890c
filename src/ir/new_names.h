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

// Whether another node, or a body of one, has a name in its own dims that this node finds and that none of
// its operands has. It reads nothing of this node, which must run all the same.
bool is_awaited(const Graph& graph, NodeId id);

}  // namespace lathe
