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

// The symbols in the node's own dims, and in those of its bodies' nodes, that no dim of an operand has. Where
// another node finds one, this node must come behind it, though it need not read anything of it.
std::set<std::string> awaited_names(const Graph& graph, const Node& node);

// Whether another node awaits a name that this node finds: it must run though nobody reads its results.
bool is_awaited(const Graph& graph, NodeId id);

}  // namespace lathe
