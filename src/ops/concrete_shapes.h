// SPDX-License-Identifier: Apache-2.0
//
// What a graph assumes of its symbolic dims, checked where the symbols have values. Rules take two symbols
// that must be equal as equal (the dims of operands that broadcast, the inner dims of a product); at concrete
// extents the same rules decide.
#pragma once

#include <span>

#include "ir/graph.h"

namespace lathe {

// Infers the nodes, which are in the graph's order, on concrete extents. Throws Input, naming the node, its
// ONNX nodes, the operator and the shapes, when operands do not fit each other or a result is not what the
// graph says. Dims without a value, which only a run finds, are left out.
void check_concrete_shapes(const Graph& graph, std::span<const NodeId> nodes, const SymbolValues& symbols);

}  // namespace lathe
