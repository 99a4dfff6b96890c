// SPDX-License-Identifier: Apache-2.0
//
// A layer's costs come from its own graph. Those of an ONNX node come from the portable graph, where nothing
// is fused yet: one ONNX node may be several operators there (their costs add up), and what it writes is
// saved when only nodes of the same layer read it.
#include "report/layer_costs.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "ops/cost.h"

namespace lathe {
namespace {

struct OriginCost {
  LayerCost cost;
  int64_t written = 0;
  std::vector<std::string> readers;  // origins that read what it writes
  bool leaves = false;               // its result is an output of the network
};

std::optional<LayerCost> cost_of(const Graph& graph, NodeId node, const SymbolValues& symbols) {
  try {
    return layer_cost(graph, node, symbols);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input) throw;
    return {};  // a symbol without a value
  }
}

int64_t weight_bytes(const Graph& graph, const Node& node) {
  int64_t bytes = 0;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue || !graph.value(id).is_constant()) continue;
    bytes += dtype_bytes(graph.value(id).dtype, graph.value(id).constant.size());
  }
  return bytes;
}

std::unordered_map<std::string, OriginCost> origin_costs(const Graph& graph, const SymbolValues& symbols) {
  std::unordered_map<std::string, OriginCost> costs;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const auto cost = cost_of(graph, id, symbols);
    if (node.origins.size() != 1 || !cost) continue;
    OriginCost& origin = costs[node.origins.front().name];
    origin.cost.flops += cost->flops;
    origin.cost.bytes_read += cost->bytes_read;
    origin.cost.bytes_written += cost->bytes_written;
    bool inside = true;  // read by operators of the same ONNX node only
    for (const ValueId output : node.outputs) {
      if (output == kNoValue) continue;
      origin.leaves = origin.leaves || graph.is_output(output);
      inside = inside && !graph.users(output).empty();
      for (const NodeId user : graph.users(output)) {
        for (const Origin& reader : graph.node(user).origins) {
          if (reader.name == node.origins.front().name) continue;
          origin.readers.push_back(reader.name);
          inside = false;
        }
      }
    }
    if (!inside) origin.written += cost->bytes_written;
  }
  return costs;
}

}  // namespace

void add_layer_costs(LayerReport& report, size_t first, const Plan& plan, const PlanVariant& variant,
                     const SymbolValues& symbols) {
  const Graph& graph = *variant.graph;
  const auto origins = origin_costs(*plan.portable_graph(), symbols);
  size_t next = 0;
  for (size_t at = first; at < report.layers.size() && next < graph.order().size(); ++at) {
    LayerInfo& layer = report.layers[at];
    if (layer.is_nested) continue;
    const size_t i = next++;
    auto cost = cost_of(graph, graph.order()[i], symbols);
    if (!cost) continue;
    if (variant.choices[i].tactic.is_view) cost = LayerCost{};  // only names change
    LayerCosts costs{cost->flops,
                     cost->bytes_read,
                     cost->bytes_written,
                     weight_bytes(graph, graph.node(graph.order()[i])),
                     {}};
    for (const Origin& origin : layer.origins) {
      OnnxNodeCost node{origin.name, origin.op_type, {}, {}, {}};
      if (const auto found = origins.find(origin.name); found != origins.end()) {
        const OriginCost& known = found->second;
        node.flops = known.cost.flops;
        node.bytes = known.cost.bytes_read + known.cost.bytes_written;
        const bool stays =
            !known.leaves && !known.readers.empty() &&
            std::all_of(known.readers.begin(), known.readers.end(), [&](const std::string& reader) {
              return std::any_of(layer.origins.begin(), layer.origins.end(),
                                 [&](const Origin& other) { return other.name == reader; });
            });
        if (stays) node.saved_bytes = known.written;
      }
      costs.nodes.push_back(std::move(node));
    }
    layer.costs = std::move(costs);
  }
}

}  // namespace lathe
