// SPDX-License-Identifier: Apache-2.0
#include "tune/alternatives.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/edit.h"

namespace lathe {
namespace {

// The type of what is inside a fused layer: no tensor has it, and no other state.
TensorType inside(int number, size_t variant) {
  return {DType::Undefined, {Format::Kind::ChannelBlocked, -1 - number * 1024 - static_cast<int>(variant)}};
}

}  // namespace

std::vector<Alternative> find_alternatives(const Graph& graph, const Graph& fused) {
  std::vector<size_t> position(graph.node_count(), 0);
  for (size_t i = 0; i < graph.order().size(); ++i) position[static_cast<size_t>(graph.order()[i])] = i;
  std::vector<Alternative> result;
  for (const NodeId id : fused.order()) {
    if (static_cast<size_t>(id) < graph.node_count()) continue;
    // Backwards from its result as far as its operands.
    const std::vector<ValueId>& operands = fused.node(id).inputs;
    std::set<size_t> parts;
    std::vector<NodeId> open = {graph.value(fused.node(id).outputs[0]).producer};
    while (!open.empty()) {
      const NodeId part = open.back();
      open.pop_back();
      parts.insert(position[static_cast<size_t>(part)]);
      for (const ValueId input : graph.node(part).inputs)
        if (input != kNoValue && graph.value(input).producer != kNoNode &&
            std::find(operands.begin(), operands.end(), input) == operands.end())
          open.push_back(graph.value(input).producer);
    }
    result.push_back({{parts.begin(), parts.end()}, id});
  }
  return result;
}

void add_states(const Graph& graph, const Graph& fused, const Alternative& alternative, int number,
                double boundary_ms, const std::vector<LayerState>& fused_states,
                std::vector<std::vector<LayerState>>& states) {
  const double saved_ms = boundary_ms * static_cast<double>(alternative.parts.size() - 1);
  const std::vector<ValueId>& operands = fused.node(alternative.fused).inputs;
  for (size_t variant = 0; variant < fused_states.size(); ++variant) {
    const Tactic& tactic = fused_states[variant].tactic;
    const auto type_of = [&](ValueId id) -> TensorType {
      if (id == kNoValue || graph.value(id).is_constant()) return {};
      const auto found = std::find(operands.begin(), operands.end(), id);
      return found == operands.end() ? inside(number, variant)
                                     : tactic.inputs[static_cast<size_t>(found - operands.begin())];
    };
    for (const size_t part : alternative.parts) {
      const Node& node = graph.node(graph.order()[part]);
      const bool last = part == alternative.parts.back();
      LayerState state{.ms = last ? fused_states[variant].ms - saved_ms : 0,
                       .alternative = number,
                       .variant = static_cast<int>(variant)};
      for (const ValueId input : node.inputs) state.tactic.inputs.push_back(type_of(input));
      for (size_t k = 0; k < node.outputs.size(); ++k)
        state.tactic.outputs.push_back(last ? tactic.outputs[k] : inside(number, variant));
      states[part].push_back(std::move(state));
    }
  }
}

bool is_consistent(const std::vector<Alternative>& alternatives, const std::vector<LayerState>& chosen) {
  for (size_t number = 0; number < alternatives.size(); ++number) {
    const auto& parts = alternatives[number].parts;
    for (const size_t part : parts) {
      const LayerState &first = chosen[parts[0]], &state = chosen[part];
      const bool first_in = first.alternative == static_cast<int>(number),
                 in = state.alternative == static_cast<int>(number);
      if (first_in != in || (in && first.variant != state.variant)) return false;
    }
  }
  return true;
}

ChosenGraph take_alternatives(const Graph& graph, const Graph& fused,
                              const std::vector<Alternative>& alternatives,
                              const std::vector<std::vector<LayerState>>& fused_states,
                              const std::vector<LayerState>& chosen) {
  ChosenGraph result{graph, {}};
  std::map<NodeId, LayerState> states;
  for (size_t i = 0; i < chosen.size(); ++i) states[graph.order()[i]] = chosen[i];
  GraphEditor editor(result.graph);
  for (const Alternative& alternative : alternatives) {
    const LayerState& state = chosen[alternative.parts.back()];
    if (state.alternative < 0 || &alternatives[static_cast<size_t>(state.alternative)] != &alternative)
      continue;
    const NodeId last = graph.order()[alternative.parts.back()];
    const Node& node = fused.node(alternative.fused);
    std::vector<GraphEditor::NewValue> outputs;
    for (const ValueId id : node.outputs) {
      const Value& value = fused.value(id);
      outputs.push_back({.name = value.name,
                         .dtype = value.dtype,
                         .shape = value.shape,
                         .quantization = value.quantization});
    }
    const size_t own = node.op_input_count();
    const auto operands = node.inputs.begin() + static_cast<std::ptrdiff_t>(own);
    const NodeId id = editor.add_node(node.name, node.op, {node.inputs.begin(), operands}, std::move(outputs),
                                      node.origins, last);
    editor.set_epilogue(id, node.epilogue, {operands, node.inputs.end()});
    editor.set_allowed_types(id, node.allowed_types);
    editor.take_over_outputs(id, last);
    states[id] = fused_states[static_cast<size_t>(state.alternative)][static_cast<size_t>(state.variant)];
  }
  editor.remove_dead_nodes();
  for (const NodeId id : result.graph.order()) result.chosen.push_back(states.at(id));
  return result;
}

}  // namespace lathe
