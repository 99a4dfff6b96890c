// SPDX-License-Identifier: Apache-2.0
//
// What a graph assumes of its symbolic dims, checked where the symbols have values. Rules take two symbols
// that must be equal as equal (the dims of operands that broadcast, the inner dims of a product); at concrete
// extents the same rules decide.
#pragma once

#include <deque>
#include <span>
#include <unordered_map>

#include "ir/graph.h"
#include "ir/substitute.h"

namespace lathe {

class ConcreteShapes {
 public:
  // The graph and the values must outlive this object.
  ConcreteShapes(const Graph& graph, const SymbolValues& symbols);
  // Infers the node on concrete extents. Throws Input, naming the node, its ONNX nodes, the operator and the
  // shapes, when operands do not fit each other or a result is not what the graph says. Dims without a value,
  // which only a run finds, are left out. A node like one of the last few, as a model of equal blocks has
  // them, is right with it.
  void check(NodeId id);

 private:
  const Value& concrete(ValueId id);
  bool asks_the_same(const Node& a, const Node& b) const;

  const Graph& graph_;
  DimReplacements known_;
  std::unordered_map<ValueId, Value> values_;  // with the symbols' values in shapes and contents
  std::deque<NodeId> checked_;                 // the last few that were unlike each other
};

// All of the nodes, which are in the graph's order.
void check_concrete_shapes(const Graph& graph, std::span<const NodeId> nodes, const SymbolValues& symbols);

}  // namespace lathe
