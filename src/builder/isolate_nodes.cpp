// SPDX-License-Identifier: Apache-2.0
#include "builder/isolate_nodes.h"

#include <algorithm>
#include <map>

#include "builder/edit_network.h"
#include "ops/build.h"
#include "ops/interpreter.h"

namespace lathe {
namespace {

bool implements(const Node& node, const std::set<std::string>& origins) {
  return std::any_of(node.origins.begin(), node.origins.end(),
                     [&](const Origin& origin) { return origins.contains(origin.name); });
}

// The values that pass between some nodes of a graph and the others.
struct Border {
  std::vector<ValueId> reads, gives;
};

Border border_of(const Graph& graph, const std::set<std::string>& origins) {
  const auto is_inside = [&](NodeId id) { return id != kNoNode && implements(graph.node(id), origins); };
  Border border;
  std::set<ValueId> seen;
  for (const NodeId id : graph.order()) {
    if (!is_inside(id)) continue;
    for (const ValueId input : graph.node(id).inputs)
      if (input != kNoValue && !graph.value(input).is_constant() && !is_inside(graph.value(input).producer) &&
          seen.insert(input).second)
        border.reads.push_back(input);
    for (const ValueId output : graph.node(id).outputs) {
      if (output == kNoValue) continue;
      const std::vector<NodeId> users = graph.users(output);
      if (graph.is_output(output) || users.empty() ||
          std::any_of(users.begin(), users.end(), [&](NodeId user) { return !is_inside(user); }))
        border.gives.push_back(output);
    }
  }
  return border;
}

std::string names_of(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

IsolatedNodes isolate_nodes(const Graph& model, const std::set<std::string>& origins,
                            std::span<const Tensor> inputs, ThreadPool* pool) {
  const Border border = border_of(model, origins);
  if (border.gives.empty()) throw_input_error("the model has no nodes " + names_of(origins));
  std::map<std::string, Tensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[model.value(model.inputs()[i]).name] = inputs[i];
  interpret(model, inputs, {.pool = pool, .on_value = [&](ValueId id, const Tensor& value) {
                              if (std::count(border.reads.begin(), border.reads.end(), id) > 0)
                                values[model.value(id).name] = value;
                            }});
  IsolatedNodes result{.graph = model};
  for (const ValueId id : model.inputs())
    if (const Tensor& tensor = values.at(model.value(id).name); tensor.rank() > 0)
      set_input_shape(result.graph, model.value(id).name, tensor.extents());
  std::vector<std::string> outputs;
  for (const ValueId id : border.gives) outputs.push_back(model.value(id).name);
  set_outputs(result.graph, outputs);
  for (const ValueId id : border.reads)
    if (!model.is_input(id)) cut_input(result.graph, model.value(id).name);
  result.graph = without_unused(std::move(result.graph));
  for (const ValueId id : result.graph.inputs())
    result.inputs.push_back(values.at(result.graph.value(id).name));
  verify_graph(result.graph);
  return result;
}

}  // namespace lathe
