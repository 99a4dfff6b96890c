// SPDX-License-Identifier: Apache-2.0
//
// The end that both forms of GELU share: 0.5 * x * (1 + f), the three factors multiplied in any order.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace lathe {

// `f`: the value to which 1 is added. Gives the nodes behind it in data order, the last one giving the
// product; nullopt when the pattern is another or any intermediate result is read elsewhere.
std::optional<std::vector<NodeId>> match_gelu_tail(const Graph& graph, ValueId f, ValueId x);

}  // namespace lathe
