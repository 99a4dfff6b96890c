// SPDX-License-Identifier: Apache-2.0
//
// A graph inside of an operator: the branches of If, what Loop and Scan repeat. It reads nothing of the graph
// around it but its own inputs, among which are the values that it captures; its dims may name that graph's
// symbols. A body is shared and never changes: a rewrite gives its operator another one.
#pragma once

#include <memory>

namespace lathe {

class Graph;

class Body {
 public:
  Body() = default;
  explicit Body(Graph graph);

  explicit operator bool() const { return graph_ != nullptr; }
  // Throws Internal when there is none.
  const Graph& graph() const;

  // Whether both say the same, constants included.
  friend bool operator==(const Body& a, const Body& b);

 private:
  std::shared_ptr<const Graph> graph_;
};

}  // namespace lathe
