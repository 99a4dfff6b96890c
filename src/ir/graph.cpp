// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace lathe {

Node::Node() = default;
Node::Node(const Node& other) = default;
Node::Node(Node&& other) noexcept = default;
Node& Node::operator=(const Node& other) = default;
Node& Node::operator=(Node&& other) noexcept = default;
Node::~Node() = default;

Graph::Graph() = default;
Graph::Graph(const Graph& other) = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(const Graph& other) = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;
Graph::~Graph() = default;

std::vector<NodeId> Graph::users(ValueId id) const {
  std::vector<NodeId> users = readers_[static_cast<size_t>(id)];
  if (users.size() < 2) return users;
  std::sort(users.begin(), users.end());
  users.erase(std::unique(users.begin(), users.end()), users.end());
  std::sort(users.begin(), users.end(), [this](NodeId a, NodeId b) { return is_before(a, b); });
  return users;
}

bool Graph::is_input(ValueId id) const {
  return std::find(inputs_.begin(), inputs_.end(), id) != inputs_.end();
}

bool Graph::is_output(ValueId id) const {
  return std::find(outputs_.begin(), outputs_.end(), id) != outputs_.end();
}

std::optional<ValueId> Graph::find_value(std::string_view name) const {
  const auto found = value_names_.find(std::string(name));
  if (found == value_names_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> Graph::symbols() const {
  std::set<std::string> names;
  for (ValueId input : inputs_) {
    for (const Dim& dim : value(input).shape) names.merge(dim.symbols());
  }
  return {names.begin(), names.end()};
}

}  // namespace lathe
