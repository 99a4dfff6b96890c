// SPDX-License-Identifier: Apache-2.0
//
// Edits of networks: NetworkBuilder's and `lathe edit`'s. Tensors go by the names of the model's values. All
// throw Input.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace lathe {

// Dynamic dims of an input get extents; -1 leaves one dynamic.
void set_input_shape(Graph& graph, const std::string& input, const Extents& extents);
// The tensor becomes an input, and what computed it is not needed for it any more.
void cut_input(Graph& graph, const std::string& tensor);
// These tensors are the outputs, instead of what they were; what none of them needs is removed.
void set_outputs(Graph& graph, const std::vector<std::string>& tensors);
// A tensor, or else a node.
void rename(Graph& graph, const std::string& from, const std::string& to);
// Computes what depends on constants alone, and removes what changes nothing.
void fold(Graph& graph);
// The graph without nodes and inputs that no output needs.
Graph without_unused(Graph graph);

}  // namespace lathe
