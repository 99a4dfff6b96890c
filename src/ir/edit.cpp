// SPDX-License-Identifier: Apache-2.0
//
// Every change goes through the few places here that keep the graph's indexes (names, readers, producers)
// true. A value that lost its producer keeps its id, but has no name any more; compact() drops it.
#include "ir/edit.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "base/error.h"
#include "ir/new_names.h"
#include "ir/substitute.h"

namespace lathe {
namespace {

// `name`, or `name_1`, `name_2`, ... whichever is free.
template <class Taken>
std::string free_name(std::string name, const char* when_empty, const Taken& taken) {
  if (name.empty()) name = when_empty;
  if (!taken.contains(name)) return name;
  for (int i = 1;; ++i) {
    std::string candidate = name + "_" + std::to_string(i);
    if (!taken.contains(candidate)) return candidate;
  }
}

}  // namespace

Node& GraphEditor::node(NodeId id) {
  check(id >= 0 && static_cast<size_t>(id) < graph_.nodes_.size(), "no such node");
  Node& n = graph_.nodes_[static_cast<size_t>(id)];
  check(!n.removed, "node " + n.name + " was removed");
  return n;
}

Value& GraphEditor::value(ValueId id) {
  check(id >= 0 && static_cast<size_t>(id) < graph_.values_.size(), "no such value");
  return graph_.values_[static_cast<size_t>(id)];
}

ValueId GraphEditor::new_value(std::string name) {
  const auto id = static_cast<ValueId>(graph_.values_.size());
  Value v;
  v.name = free_name(std::move(name), "value", graph_.value_names_);
  graph_.value_names_.emplace(v.name, id);
  graph_.values_.push_back(std::move(v));
  graph_.readers_.emplace_back();
  return id;
}

void GraphEditor::link(NodeId id) {
  for (ValueId input : node(id).inputs) {
    if (input == kNoValue) continue;
    value(input);  // checks the id
    graph_.readers_[static_cast<size_t>(input)].push_back(id);
  }
}

void GraphEditor::unlink(NodeId id) {
  for (ValueId input : node(id).inputs) {
    if (input == kNoValue) continue;
    auto& readers = graph_.readers_[static_cast<size_t>(input)];
    readers.erase(std::find(readers.begin(), readers.end(), id));
  }
}

void GraphEditor::set_name(std::string name) {
  graph_.name_ = std::move(name);
}

ValueId GraphEditor::add_input(std::string name, DType dtype, Shape shape) {
  const ValueId id = new_value(std::move(name));
  value(id).dtype = dtype;
  value(id).shape = std::move(shape);
  graph_.inputs_.push_back(id);
  return id;
}

ValueId GraphEditor::add_constant(std::string name, Tensor tensor) {
  const ValueId id = new_value(std::move(name));
  value(id).constant = Tensor::scalar_i64(0);  // makes it a constant before set_constant asks
  set_constant(id, std::move(tensor));
  return id;
}

void GraphEditor::mark_output(ValueId id) {
  value(id);
  graph_.outputs_.push_back(id);
}

void GraphEditor::clear_outputs() {
  graph_.outputs_.clear();
}

void GraphEditor::replace_output(size_t index, ValueId id) {
  check(index < graph_.outputs_.size(), "replace_output: no such output");
  value(id);
  graph_.outputs_[index] = id;
}

NodeId GraphEditor::add_node(std::string name, Op op, std::vector<ValueId> inputs,
                             std::vector<NewValue> outputs, std::vector<Origin> origins, NodeId before) {
  const auto id = static_cast<NodeId>(graph_.nodes_.size());
  Node n;
  n.name = free_name(std::move(name), "node", graph_.node_names_);
  graph_.node_names_.insert(n.name);
  n.op = std::move(op);
  n.inputs = std::move(inputs);
  n.origins = std::move(origins);
  for (NewValue& output : outputs) {
    if (output.name.empty()) {
      n.outputs.push_back(kNoValue);
      continue;
    }
    const ValueId result = new_value(std::move(output.name));
    Value& v = value(result);
    v.dtype = output.dtype;
    v.shape = std::move(output.shape);
    v.contents = std::move(output.contents);
    v.format = output.format;
    v.quantization = std::move(output.quantization);
    v.producer = id;
    n.outputs.push_back(result);
  }
  graph_.nodes_.push_back(std::move(n));
  link(id);
  graph_.places_.push_back(0);
  insert_in_order(id, before == kNoNode ? graph_.order_.size() : position(before));
  return id;
}

size_t GraphEditor::position(NodeId id) const {
  const auto found = std::lower_bound(graph_.order_.begin(), graph_.order_.end(), id,
                                      [this](NodeId a, NodeId b) { return graph_.is_before(a, b); });
  return static_cast<size_t>(found - graph_.order_.begin());
}

void GraphEditor::number_places() {
  for (size_t i = 0; i < graph_.order_.size(); ++i)
    graph_.places_[static_cast<size_t>(graph_.order_[i])] = static_cast<int64_t>(i + 1) * kGap;
}

// The new place lies between those of the neighbours. Where there is none, all get new ones.
void GraphEditor::insert_in_order(NodeId id, size_t index) {
  auto& order = graph_.order_;
  const auto place = [&](size_t i) { return graph_.places_[static_cast<size_t>(order[i])]; };
  const int64_t low = index == 0 ? 0 : place(index - 1),
                high = index == order.size() ? low + 2 * kGap : place(index);
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(index), id);
  graph_.places_[static_cast<size_t>(id)] = low + (high - low) / 2;
  if (high - low < 2) number_places();
}

void GraphEditor::move_behind_inputs(NodeId id) {
  NodeId last = id;
  for (const ValueId input : node(id).inputs) {
    const NodeId producer = input == kNoValue ? kNoNode : graph_.value(input).producer;
    if (producer != kNoNode && graph_.is_before(last, producer)) last = producer;
  }
  if (last == id) return;
  graph_.order_.erase(graph_.order_.begin() + static_cast<std::ptrdiff_t>(position(id)));
  insert_in_order(id, position(last) + 1);
}

bool GraphEditor::can_replace_uses(ValueId from, ValueId to) const {
  if (!graph_.is_output(from)) return true;
  return graph_.value(to).producer != kNoNode && !graph_.is_output(to);
}

void GraphEditor::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  check(can_replace_uses(from, to),
        "replace_uses: " + value(to).name + " cannot take the place of the graph output " + value(from).name);
  auto& readers = graph_.readers_[static_cast<size_t>(from)];
  const NodeId keeps = value(to).producer;
  for (NodeId reader : std::vector<NodeId>(readers)) {
    if (reader == keeps) continue;
    for (ValueId& input : node(reader).inputs) {
      if (input == from) input = to;
    }
    graph_.readers_[static_cast<size_t>(to)].push_back(reader);
  }
  std::erase_if(readers, [&](NodeId reader) { return reader != keeps; });
  if (!graph_.is_output(from)) return;
  std::replace(graph_.outputs_.begin(), graph_.outputs_.end(), from, to);
  std::swap(value(from).name, value(to).name);
  graph_.value_names_[value(from).name] = from;
  graph_.value_names_[value(to).name] = to;
}

void GraphEditor::replace_input(NodeId id, size_t index, ValueId input) {
  std::vector<ValueId> inputs = node(id).inputs;
  check(index < inputs.size(), "replace_input: node " + node(id).name + " has no such input");
  inputs[index] = input;
  set_inputs(id, std::move(inputs));
}

void GraphEditor::set_inputs(NodeId id, std::vector<ValueId> inputs) {
  unlink(id);
  node(id).inputs = std::move(inputs);
  link(id);
}

void GraphEditor::set_op(NodeId id, Op op) {
  node(id).op = std::move(op);
}

void GraphEditor::set_epilogue(NodeId id, PointwiseProgram epilogue, std::vector<ValueId> operands) {
  check(epilogue.empty() ? operands.empty() : static_cast<int>(operands.size()) + 1 == epilogue.input_count,
        "set_epilogue: operand count differs from the program's inputs");
  std::vector<ValueId> inputs = node(id).inputs;
  inputs.resize(node(id).op_input_count());
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  set_inputs(id, std::move(inputs));
  node(id).epilogue = std::move(epilogue);
}

void GraphEditor::set_allowed_types(NodeId id, std::vector<DType> types) {
  node(id).allowed_types = std::move(types);
}

void GraphEditor::set_type(ValueId id, DType dtype, Format format) {
  value(id).dtype = dtype;
  value(id).format = format;
}

void GraphEditor::set_shape(ValueId id, Shape shape) {
  value(id).shape = std::move(shape);
}

void GraphEditor::set_contents(ValueId id, std::optional<Shape> contents) {
  value(id).contents = std::move(contents);
}

void GraphEditor::set_quantization(ValueId id, std::optional<Quantization> quantization) {
  value(id).quantization = std::move(quantization);
}

void GraphEditor::set_constant(ValueId id, Tensor tensor) {
  Value& v = value(id);
  check(v.is_constant(), "set_constant: " + v.name + " is no constant");
  check(static_cast<bool>(tensor), "set_constant: no tensor for " + v.name);
  v.dtype = tensor.dtype();
  v.shape = to_shape(tensor.extents());
  v.constant = std::move(tensor);
  v.quantization.reset();
}

void GraphEditor::rename_node(NodeId id, std::string name) {
  graph_.node_names_.erase(node(id).name);
  node(id).name = free_name(std::move(name), "node", graph_.node_names_);
  graph_.node_names_.insert(node(id).name);
}

void GraphEditor::rename_value(ValueId id, std::string name) {
  graph_.value_names_.erase(value(id).name);
  value(id).name = free_name(std::move(name), "value", graph_.value_names_);
  graph_.value_names_.emplace(value(id).name, id);
}

void GraphEditor::add_origins(NodeId into, const std::vector<Origin>& origins) {
  auto& own = node(into).origins;
  for (const Origin& origin : origins) {
    if (std::find(own.begin(), own.end(), origin) == own.end()) own.push_back(origin);
  }
}

void GraphEditor::take_over_outputs(NodeId id, NodeId other) {
  check(id != other && node(id).outputs.size() <= node(other).outputs.size(),
        "take_over_outputs: " + node(other).name + " has too few outputs");
  const std::vector<ValueId> old = node(id).outputs;
  add_origins(id, node(other).origins);
  node(id).outputs = node(other).outputs;
  node(other).outputs.assign(old.begin(), old.end());
  for (ValueId output : node(id).outputs) {
    if (output != kNoValue) value(output).producer = id;
  }
  for (ValueId output : old) {
    if (output != kNoValue) value(output).producer = other;
  }
  // What `node` gave before now belongs to `other`, which may be the only one that reads it.
  set_inputs(other, {});
  remove_node(other);
}

void GraphEditor::absorb(NodeId into, NodeId from) {
  add_origins(into, node(from).origins);
  rename_node(into, node(into).name + " + " + node(from).name);
}

void GraphEditor::remove_node(NodeId id) {
  for (ValueId output : node(id).outputs) {
    if (output == kNoValue) continue;
    check(graph_.readers_[static_cast<size_t>(output)].empty() && !graph_.is_output(output),
          "remove_node: " + node(id).name + " still has readers");
  }
  for (ValueId output : node(id).outputs) {
    if (output == kNoValue) continue;
    graph_.value_names_.erase(value(output).name);
    value(output) = Value{};
  }
  unlink(id);
  graph_.node_names_.erase(node(id).name);
  graph_.order_.erase(graph_.order_.begin() + static_cast<std::ptrdiff_t>(position(id)));
  Node& n = node(id);
  const std::string name = n.name;
  n = Node{};
  n.name = name;
  n.removed = true;
}

int GraphEditor::remove_dead_nodes() {
  int removed = 0;
  // Backwards, so that a chain that nobody reads goes in one sweep.
  const std::vector<NodeId> order = graph_.order_;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const auto& outputs = graph_.node(*it).outputs;
    const bool read = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) {
      return v != kNoValue && (!graph_.readers_[static_cast<size_t>(v)].empty() || graph_.is_output(v));
    });
    if (read || is_awaited(graph_, *it)) continue;
    remove_node(*it);
    ++removed;
  }
  return removed;
}

namespace {

// Who needs to come after whom without reading it: a node whose dims have a name that only a run finds, and
// no operand that has it, after the node that finds it. `Fill {shape=[NonZero.count]}` reads nothing. By the
// one that finds.
std::multimap<NodeId, NodeId> waits_for_sizes(const Graph& graph) {
  std::multimap<NodeId, NodeId> pairs;
  std::map<std::string, NodeId, std::less<>> finders;
  for (const NodeId id : graph.order()) {
    const std::set<std::string> own = symbols_of(graph.node(id).op);
    for (const std::string& name : new_names(graph, graph.node(id)))
      if (!own.contains(name)) finders.emplace(name, id);
  }
  if (finders.empty()) return pairs;
  for (const NodeId id : graph.order())
    for (const std::string& name : awaited_names(graph, graph.node(id)))
      if (const auto found = finders.find(name); found != finders.end() && found->second != id)
        pairs.emplace(found->second, id);
  return pairs;
}

}  // namespace

// Kahn's algorithm; among the ready nodes the earliest in the old order goes first, so a sorted graph stays
// as it is. What waits for a size in a circle with what it reads is the model's fault, and is found when it
// runs.
void GraphEditor::sort() {
  const size_t count = graph_.nodes_.size();
  std::vector<size_t> position(count, 0);
  for (size_t i = 0; i < graph_.order_.size(); ++i) position[static_cast<size_t>(graph_.order_[i])] = i;
  const auto sorted_with = [&](const std::multimap<NodeId, NodeId>& sizes) {
    std::vector<int> waiting(count, 0);
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (const auto& [finder, id] : sizes) ++waiting[static_cast<size_t>(id)];
    for (NodeId id : graph_.order_) {
      for (ValueId input : graph_.node(id).inputs) {
        if (input != kNoValue && graph_.value(input).producer != kNoNode) ++waiting[static_cast<size_t>(id)];
      }
      if (waiting[static_cast<size_t>(id)] == 0) ready.push(position[static_cast<size_t>(id)]);
    }
    std::vector<NodeId> sorted;
    const auto done = [&](NodeId reader) {
      if (--waiting[static_cast<size_t>(reader)] == 0) ready.push(position[static_cast<size_t>(reader)]);
    };
    while (!ready.empty()) {
      const NodeId id = graph_.order_[ready.top()];
      ready.pop();
      sorted.push_back(id);
      for (ValueId output : graph_.node(id).outputs) {
        if (output == kNoValue) continue;
        for (NodeId reader : graph_.readers_[static_cast<size_t>(output)]) done(reader);
      }
      const auto [begin, end] = sizes.equal_range(id);
      for (auto it = begin; it != end; ++it) done(it->second);
    }
    return sorted;
  };
  const std::multimap<NodeId, NodeId> sizes = waits_for_sizes(graph_);
  std::vector<NodeId> sorted = sorted_with(sizes);
  if (sorted.size() < graph_.order_.size() && !sizes.empty()) sorted = sorted_with({});
  check(sorted.size() == graph_.order_.size(), "GraphEditor::sort: the graph has a cycle");
  graph_.order_ = std::move(sorted);
  number_places();
}

void GraphEditor::compact() {
  Graph old = std::move(graph_);
  graph_ = Graph{};
  graph_.name_ = old.name_;
  std::vector<ValueId> renumbered(old.values_.size(), kNoValue);
  const auto keep = [&](ValueId id) {
    if (id == kNoValue) return kNoValue;
    ValueId& to = renumbered[static_cast<size_t>(id)];
    if (to == kNoValue) {
      to = static_cast<ValueId>(graph_.values_.size());
      graph_.values_.push_back(std::move(old.values_[static_cast<size_t>(id)]));
      graph_.values_.back().producer = kNoNode;
      graph_.value_names_.emplace(graph_.values_.back().name, to);
      graph_.readers_.emplace_back();
    }
    return to;
  };
  for (ValueId id : old.inputs_) graph_.inputs_.push_back(keep(id));
  for (NodeId old_id : old.order_) {
    Node n = std::move(old.nodes_[static_cast<size_t>(old_id)]);
    const auto id = static_cast<NodeId>(graph_.nodes_.size());
    for (ValueId& input : n.inputs) input = keep(input);
    for (ValueId& output : n.outputs) {
      output = keep(output);
      if (output != kNoValue) graph_.values_[static_cast<size_t>(output)].producer = id;
    }
    graph_.node_names_.insert(n.name);
    graph_.nodes_.push_back(std::move(n));
    graph_.order_.push_back(id);
    graph_.places_.push_back(0);
    link(id);
  }
  number_places();
  for (ValueId id : old.outputs_) graph_.outputs_.push_back(keep(id));
}

}  // namespace lathe
