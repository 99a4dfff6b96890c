// SPDX-License-Identifier: Apache-2.0
//
// Structural rules of a graph: ids in range, one producer per value, topological order, unique names,
// epilogue operands present. Types and shapes are checked against the operators' rules by ops/infer.h.
#pragma once

#include "ir/graph.h"

namespace lathe {

// Bodies inside of each other: If in Loop in If ...
inline constexpr int kMaxBodies = 32;

// Throws an Internal error that names the node and the rule.
void verify_structure(const Graph& graph);

}  // namespace lathe
