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

// What the rules say of the results of a node in the graph.
std::vector<ResultInfo> infer_node(const Graph& graph, const Node& node);
// Whether a result may be stored as `actual` where the rules say `inferred`. The tuner stores results in
// another float type or as integers of their grid, or lets a Reformat change it; all other types follow from
// the operator. Both types are those of numbers.
bool type_is_allowed(const Node& node, DType inferred, DType actual);

// verify_structure, and every node's output types and shapes equal what its operator infers. Throws Internal.
void verify_graph(const Graph& graph);
// Infers all nodes again (after input shapes or constants changed), those of bodies included.
void infer_shapes(Graph& graph);

}  // namespace lathe
