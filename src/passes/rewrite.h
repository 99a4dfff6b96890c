// SPDX-License-Identifier: Apache-2.0
//
// The rewrites that many passes share. They keep names ("a + b") and origins, and remove what is read by
// nobody any more.
#pragma once

#include <string>
#include <vector>

#include "ir/edit.h"
#include "passes/pass.h"

namespace lathe {

// One new node in place of `nodes`, which are in data order; the last one gives the result. Types and shapes
// are inferred.
NodeId replace_nodes(Graph& graph, PassContext& context, const std::vector<NodeId>& nodes, Op op,
                     std::vector<ValueId> inputs);

// A node with one output and the origins of `like`, placed before `like`; returns its output.
ValueId insert_like(Graph& graph, NodeId like, std::string_view suffix, Op op, std::vector<ValueId> inputs);
// The same for a node that implements no ONNX node: it only brings a value into the layout that another one
// wants.
ValueId insert_layout(Graph& graph, NodeId like, std::string_view suffix, Op op, std::vector<ValueId> inputs);

// Removes `node` when nobody reads it, then its producers likewise.
void remove_if_unread(Graph& graph, NodeId node);

// Replaces every use of the node's result by `value` and removes the node. False when a graph output forbids
// it.
bool bypass(Graph& graph, PassContext& context, NodeId node, ValueId value);

// Is `tail` a pointwise node that alone reads the first result of `first`, at the same shape and float type?
bool can_append(const Graph& graph, NodeId first, NodeId tail);
// Appends `tail` to the layer's epilogue. False, and nothing is changed, when can_append() says no.
bool append_to_epilogue(Graph& graph, PassContext& context, NodeId layer, NodeId tail);
// Two pointwise nodes become one PointwiseChain. False, and nothing is changed, when types or shapes do not
// allow it.
bool join_pointwise(Graph& graph, PassContext& context, NodeId first, NodeId tail);

// The types that all of the nodes may use.
std::vector<DType> common_types(const Graph& graph, const std::vector<NodeId>& nodes);

// Whether program_of() is not empty.
bool is_pointwise_layer(const Node& node);
// The node's work as a program over its inputs: a Pointwise as one step, a chain as it is. Empty for other
// nodes.
PointwiseProgram program_of(const Node& node);

}  // namespace lathe
