// SPDX-License-Identifier: Apache-2.0
//
// Infers nodes of a graph again, after something that their shapes follow from became known. A dim that only
// a run finds has a name, and all layers behind it say their shapes and attributes in this name:
//
//   %v: [Reshape_1.dim0<=64, 4] = Reshape "Reshape_1" (%x, %target)
//   %w: [4, Reshape_1.dim0<=64] = Reshape "Reshape_2" (%v) {shape=[4, Reshape_1.dim0<=64]}
//
// When %target becomes known, the rule of Reshape_1 says 16, and Reshape_2 must hear of it: whatever a rule
// now says of a name that its node defines replaces the name in all nodes that follow.
#pragma once

#include <set>
#include <string>

#include "ir/graph.h"
#include "ir/substitute.h"

namespace lathe {

class ShapeInference {
 public:
  explicit ShapeInference(Graph& graph) : graph_(graph) {}

  // Nodes must come in the graph's order, and all that follow the first one must come: their attributes name
  // what was found before.
  void infer(NodeId id);
  // The same from outside: an operator whose result was computed defined the name.
  void define(const std::string& name, const Dim& dim) { known_.emplace(name, dim); }
  // Whether a name got another meaning.
  bool found_some() const { return !known_.empty(); }

 private:
  void replace_names(NodeId id);
  void tell_contents(NodeId id, Graph& body) const;
  Dim settle(const Dim& before, const Dim& inferred, const std::set<std::string>& read);

  Graph& graph_;
  DimReplacements known_;
};

// Whether runs find dims of the graph's values.
bool has_dims_found_by_runs(const Graph& graph);

}  // namespace lathe
