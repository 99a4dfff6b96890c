// SPDX-License-Identifier: Apache-2.0
#include "backend/nested_layers.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <variant>

namespace lathe {
namespace {

// The fields of the operator that are bodies: "then_branch", "body".
std::vector<std::string> body_names(const Op& op) {
  std::vector<std::string> names;
  std::visit(
      [&]<class T>(const T& fields) {
        T::visit(fields, [&]<class F>(std::string_view name, const F&) {
          if constexpr (std::is_same_v<F, Body>) names.emplace_back(name);
        });
      },
      op);
  return names;
}

// Exporters begin names with a slash, and the importer puts the name of the node around in front.
std::string own_name(std::string_view label, std::string_view around) {
  const std::string_view behind = label.substr(std::min(around.size(), label.size()));
  if (!around.empty() && label.starts_with(around) && behind.starts_with('/')) label = behind;
  label.remove_prefix(std::min(label.find_first_not_of('/'), label.size()));
  return std::string(label);
}

// `holder`: the name that the layer has in reports.
void add_layers(const std::string& holder, const Node& layer, const Tactic* tactic,
                std::vector<NestedLayer>& layers) {
  const std::vector<Body> bodies = bodies_of(layer.op);
  const std::vector<std::string> names = body_names(layer.op);
  for (size_t b = 0; b < bodies.size(); ++b) {
    const Graph& graph = bodies[b].graph();
    const bool is_chosen = tactic != nullptr && !tactic->bodies.empty();
    for (size_t i = 0; i < graph.order().size(); ++i) {
      const Node& node = graph.node(graph.order()[i]);
      const Tactic* chosen = is_chosen ? &tactic->bodies.at(b).at(i) : nullptr;
      const std::string name = holder + "/" + names[b] + "/" + own_name(node.name, layer.name);
      layers.push_back({name, &graph, graph.order()[i], chosen});
      add_layers(name, node, chosen, layers);
    }
  }
}

}  // namespace

size_t nested_count(const Op& op) {
  size_t count = 0;
  for (const Body& body : bodies_of(op)) count += timed_count(body.graph());
  return count;
}

size_t timed_count(const Graph& graph) {
  size_t count = graph.order().size();
  for (const NodeId id : graph.order()) count += nested_count(graph.node(id).op);
  return count;
}

std::vector<double> in_order_of_layers(const Graph& graph, std::span<const double> time_ms) {
  const std::vector<NodeId>& order = graph.order();
  std::span<const double> nested = time_ms.subspan(order.size());
  std::vector<double> times;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto inside = nested.first(nested_count(graph.node(order[i]).op));
    nested = nested.subspan(inside.size());
    times.push_back(std::max(0.0, time_ms[i] - std::accumulate(inside.begin(), inside.end(), 0.0)));
    times.insert(times.end(), inside.begin(), inside.end());
  }
  return times;
}

std::vector<NestedLayer> nested_layers(const Node& layer, const Tactic& tactic) {
  std::vector<NestedLayer> layers;
  add_layers(layer.name, layer, &tactic, layers);
  return layers;
}

}  // namespace lathe
