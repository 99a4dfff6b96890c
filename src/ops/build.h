// SPDX-License-Identifier: Apache-2.0
//
// Adds nodes with inferred results; checks a whole graph against the operators' rules.
#pragma once

#include <string>
#include <vector>

#include "ir/edit.h"
#include "ops/op_def.h"

namespace lathe {

// Appends `op` (before `before` when given) and returns its outputs. The first output is called
// `output_name`, or
// "<name>_output" when empty; others get "_1", ... A name that is taken gets a suffix.
std::vector<ValueId> append_node(GraphEditor& editor, std::string name, Op op, std::vector<ValueId> inputs,
                                 std::vector<Origin> origins, std::vector<std::string> output_names = {},
                                 size_t output_count = 1, NodeId before = kNoNode);

// verify_structure, and every node's output types and shapes equal what its operator infers. Throws Internal.
void verify_graph(const Graph& graph);
// Infers all nodes again (after input shapes or constants changed).
void infer_shapes(Graph& graph);

}  // namespace lathe
