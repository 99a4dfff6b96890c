// SPDX-License-Identifier: Apache-2.0
#include "partition.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "graph_model.h"
#include "groups.h"

namespace lathe::onnxruntime_ep {
namespace {

struct ReleaseGraph {
  void operator()(OrtGraph* graph) const { ort().ReleaseGraph(graph); }
};

size_t id_of(const OrtNode& node) {
  return answer_of<size_t>(node, ort().Node_GetId);
}

std::vector<const OrtValueInfo*> reads_of(const OrtNode& node) {
  std::vector<const OrtValueInfo*> values = inputs_of(node);
  for (const OrtValueInfo* value : captures_of(node)) values.push_back(value);
  std::erase_if(values, [](const OrtValueInfo* value) { return name_of(value).empty(); });
  return values;
}

class Selection {
 public:
  Selection(const OrtGraph& graph, v1::Builder& builder, v1::Logger& logger)
      : graph_(graph), builder_(builder), logger_(logger), nodes_(nodes_of(graph)) {
    for (size_t i = 0; i < nodes_.size(); ++i) index_[id_of(*nodes_[i])] = i;
    for (const OrtValueInfo* value :
         all_of<OrtGraph, OrtValueInfo>(graph, ort().Graph_GetNumOutputs, ort().Graph_GetOutputs))
      graph_outputs_.insert(name_of(value));
    supported_.assign(nodes_.size(), true);
    for (const OrtNode* node : nodes_) {
      NodeEdges& edges = edges_.emplace_back();
      for (const OrtValueInfo* value : reads_of(*node)) edges.reads.push_back(name_of(value));
      for (const OrtValueInfo* value : outputs_of(*node)) edges.makes.push_back(name_of(value));
    }
    for (const OrtNode* node : nodes_) {
      // The nodes that a provider before this one has taken are its own.
      if (const char* owner = answer_of<const char*>(*node, ort().Node_GetEpName);
          owner != nullptr && *owner != '\0')
        supported_[index_[id_of(*node)]] = false;
      else if (const std::string reason = why_not_writable(*node); !reason.empty())
        leave(*node, reason);
    }
  }

  // Each round leaves at least one more node to others, or is the last.
  std::vector<NodeGroup> run() {
    for (;;) {
      std::vector<NodeGroup> groups = groups_now();
      bool all_run = true;
      for (const NodeGroup& group : groups)
        if (!verified_.contains(group)) {
          if (crosses_well(group) && imports(group))
            verified_.insert(group);
          else
            all_run = false;
        }
      if (all_run) return groups;
    }
  }

 private:
  std::vector<NodeGroup> groups_now() const {
    std::vector<NodeGroup> groups;
    for (const std::vector<size_t>& numbers : group_nodes(edges_, supported_)) {
      NodeGroup& group = groups.emplace_back();
      for (const size_t i : numbers) group.push_back(nodes_[i]);
    }
    return groups;
  }

  void leave(const OrtNode& node, const std::string& reason) {
    supported_[index_.at(id_of(node))] = false;
    const std::string name = answer_of<const char*>(node, ort().Node_GetName);
    const std::string type = answer_of<const char*>(node, ort().Node_GetOperatorType);
    logger_.log(v1::Severity::Info,
                (name.empty() ? "A node of type " + type : "Node '" + name + "' (" + type + ")") +
                    " is left to other providers: " + reason);
  }

  // Leaves the nodes that read or make, across the group's border, what cannot cross it.
  bool crosses_well(const NodeGroup& group) {
    std::map<std::string, const OrtNode*> makers;
    for (const OrtNode* node : group)
      for (const OrtValueInfo* value : outputs_of(*node))
        if (const std::string name = name_of(value); !name.empty()) makers[name] = node;
    std::set<std::string> leaving(graph_outputs_);
    const std::set<const OrtNode*> members(group.begin(), group.end());
    for (const OrtNode* node : nodes_)
      if (!members.contains(node))
        for (const OrtValueInfo* value : reads_of(*node)) leaving.insert(name_of(value));
    bool well = true;
    const auto refuse = [&](const OrtNode& node, const OrtValueInfo* value) {
      well = false;
      leave(node, "'" + name_of(value) + "' is no tensor of numbers of known rank");
    };
    for (const OrtNode* node : group) {
      const auto bad = [&](const OrtValueInfo* value) { return !can_cross(type_of(*value)); };
      for (const OrtValueInfo* value : reads_of(*node))
        if (!makers.contains(name_of(value)) && !is_constant(value) && bad(value)) {
          refuse(*node, value);
          break;
        }
      for (const OrtValueInfo* value : outputs_of(*node))
        if (leaving.contains(name_of(value)) && bad(value)) {
          refuse(*node, value);
          break;
        }
    }
    return well;
  }

  // Leaves the nodes that the import of the group names.
  bool imports(const NodeGroup& group) {
    OrtGraph* made = nullptr;
    NodeGroup nodes = group;
    check(ort().Graph_GetGraphView(&graph_, nodes.data(), nodes.size(), &made));
    const std::unique_ptr<OrtGraph, ReleaseGraph> view(made);
    const GraphModel model = write_model(*view);
    const v1::ModelSupport support = builder_.check_onnx(std::as_bytes(std::span(model.bytes)));
    if (support.supported) return true;
    bool named = false;
    for (const v1::ModelSupport::Node& node : support.unsupported_nodes) {
      const auto found = model.node_ids.find(node.name);
      const size_t at = found == model.node_ids.end() ? nodes_.size() : index_.at(found->second);
      if (at == nodes_.size() || !supported_[at]) continue;
      leave(*nodes_[at], node.reason);
      named = true;
    }
    if (named) return false;
    for (const OrtNode* node : group) leave(*node, support.reason);
    return false;
  }

  const OrtGraph& graph_;
  v1::Builder& builder_;
  v1::Logger& logger_;
  std::vector<const OrtNode*> nodes_;
  std::vector<NodeEdges> edges_;
  std::vector<bool> supported_;
  std::map<size_t, size_t> index_;  // of a node, by its id
  std::set<std::string> graph_outputs_;
  std::set<NodeGroup> verified_;
};

}  // namespace

std::vector<NodeGroup> supported_groups(const OrtGraph& graph, v1::Builder& builder, v1::Logger& logger) {
  return Selection(graph, builder, logger).run();
}

}  // namespace lathe::onnxruntime_ep
