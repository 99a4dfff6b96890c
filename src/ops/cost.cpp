// SPDX-License-Identifier: Apache-2.0
//
// The cost of a layer, see cost.h. Every operand is read once and every result written once, in its own type;
// operators that look elements up read no more than they give.

#include "ops/cost.h"

#include <algorithm>

#include "ir/symbol_extents.h"
#include "ops/op_def.h"

namespace lathe {

namespace {

bool reads_only_what_it_gives(const Op& op) {
  return std::holds_alternative<Gather>(op) || std::holds_alternative<GatherElements>(op) ||
         std::holds_alternative<GatherND>(op) || std::holds_alternative<Slice>(op) ||
         std::holds_alternative<Split>(op);
}

}  // namespace

LayerCost layer_cost(const Graph& graph, NodeId id, const SymbolValues& symbols) {
  const Node& node = graph.node(id);
  const auto extents_of = [&](ValueId value) {
    return value == kNoValue ? Extents{0} : upper_extents(graph.value(value).shape, symbols);
  };
  const auto bytes_of = [&](ValueId value, const Extents& extents) {
    return value == kNoValue ? 0 : dtype_bytes(graph.value(value).dtype, element_count(extents));
  };
  std::vector<Extents> inputs, outputs;
  LayerCost cost;
  for (ValueId output : node.outputs) {
    outputs.push_back(extents_of(output));
    cost.bytes_written += bytes_of(output, outputs.back());
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(extents_of(node.inputs[i]));
    const int64_t bytes = bytes_of(node.inputs[i], inputs.back());
    cost.bytes_read +=
        i == 0 && reads_only_what_it_gives(node.op) ? std::min(bytes, cost.bytes_written) : bytes;
  }
  cost.flops = node_flops(node, CostContext{inputs, outputs});
  return cost;
}

}  // namespace lathe
