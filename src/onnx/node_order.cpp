// SPDX-License-Identifier: Apache-2.0
#include "onnx/node_order.h"

#include <algorithm>
#include <unordered_map>

namespace lathe::onnx {

namespace {

void add_names_read(const NodeProto& node, std::set<std::string_view>& names);

// What the nodes of a body read and do not produce themselves.
void add_captured(const GraphProto& body, std::set<std::string_view>& names) {
  std::set<std::string_view> read, own;
  for (const ValueInfo& input : body.inputs) own.insert(input.name);
  for (const TensorProto& tensor : body.initializers) own.insert(tensor.name);
  for (const NodeProto& node : body.nodes) {
    add_names_read(node, read);
    own.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const ValueInfo& output : body.outputs) read.insert(output.name);
  std::set_difference(read.begin(), read.end(), own.begin(), own.end(), std::inserter(names, names.end()));
}

void add_names_read(const NodeProto& node, std::set<std::string_view>& names) {
  for (const std::string_view input : node.inputs)
    if (!input.empty()) names.insert(input);
  for (const AttributeProto& a : node.attributes)
    if (a.g) add_captured(*a.g, names);
}

class Ordering {
 public:
  Ordering(const std::vector<NodeProto>& nodes, const std::function<bool(std::string_view)>& given)
      : nodes_(nodes), given_(given), reads_(nodes.size()), state_(nodes.size(), State::Waiting) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      reads_[i] = names_read(nodes[i]);
      for (const std::string_view output : nodes[i].outputs) {
        if (!output.empty() && !producers_.emplace(output, i).second)
          throw_input_error("'" + std::string(output) + "' is produced twice; names must be unique");
      }
    }
  }

  NodeOrder run(const std::vector<std::string_view>& outputs) {
    const std::vector<bool> needed = find_needed(outputs);
    NodeOrder order;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (needed[i]) {
        place(i, order.nodes);
      } else {
        order.dead.push_back(i);
      }
    }
    order.sorted = !std::is_sorted(order.nodes.begin(), order.nodes.end());
    return order;
  }

 private:
  enum class State : uint8_t { Waiting, Begun, Placed };

  std::vector<bool> find_needed(const std::vector<std::string_view>& outputs) const {
    std::vector<bool> needed(nodes_.size());
    std::vector<size_t> open;
    const auto need = [&](std::string_view name) {
      const auto it = producers_.find(name);
      if (it == producers_.end() || needed[it->second]) return;
      needed[it->second] = true;
      open.push_back(it->second);
    };
    for (const std::string_view output : outputs) need(output);
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      for (const std::string_view name : reads_[node]) need(name);
    }
    return needed;
  }

  struct Begun {
    size_t node;
    std::set<std::string_view>::const_iterator next;  // of what it reads, behind what has been looked at
  };

  Begun begin(size_t node) {
    state_[node] = State::Begun;
    return {node, reads_[node].begin()};
  }

  // The next node of the list that must come before this one, or the number of nodes.
  size_t next_missing(Begun& begun) const {
    for (; begun.next != reads_[begun.node].end(); ++begun.next) {
      const auto it = producers_.find(*begun.next);
      if (it != producers_.end() && state_[it->second] == State::Waiting && !given_(*begun.next))
        return it->second;
    }
    return nodes_.size();
  }

  // Places the node behind those that it waits for. (A stack of its own instead of calls: chains are long.)
  void place(size_t first, std::vector<size_t>& order) {
    if (state_[first] != State::Waiting) return;
    std::vector<Begun> stack = {begin(first)};
    while (!stack.empty()) {
      const size_t missing = next_missing(stack.back());
      if (missing < nodes_.size()) {
        stack.push_back(begin(missing));
        continue;
      }
      order.push_back(stack.back().node);
      state_[stack.back().node] = State::Placed;
      stack.pop_back();
    }
  }

  const std::vector<NodeProto>& nodes_;
  const std::function<bool(std::string_view)>& given_;
  std::vector<std::set<std::string_view>> reads_;
  std::vector<State> state_;
  std::unordered_map<std::string_view, size_t> producers_;
};

}  // namespace

std::set<std::string_view> names_read(const NodeProto& node) {
  std::set<std::string_view> names;
  add_names_read(node, names);
  return names;
}

NodeOrder order_nodes(const std::vector<NodeProto>& nodes, const std::vector<std::string_view>& outputs,
                      const std::function<bool(std::string_view)>& given) {
  return Ordering(nodes, given).run(outputs);
}

}  // namespace lathe::onnx
