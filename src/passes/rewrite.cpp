// SPDX-License-Identifier: Apache-2.0
#include "passes/rewrite.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/new_names.h"
#include "ops/build.h"
#include "passes/match.h"

namespace lathe {

NodeId replace_nodes(Graph& graph, PassContext& context, const std::vector<NodeId>& nodes, Op op,
                     std::vector<ValueId> inputs) {
  GraphEditor editor(graph);
  const NodeId last = nodes.back();
  context.report_fusion(graph, nodes.front(), last);
  std::string name;
  std::vector<Origin> origins;
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    name += (name.empty() ? "" : " + ") + node.name;
    for (const Origin& origin : node.origins) {
      if (std::find(origins.begin(), origins.end(), origin) == origins.end()) origins.push_back(origin);
    }
  }
  const auto results =
      append_node(editor, name, std::move(op), std::move(inputs), std::move(origins), {}, 1, last);
  const NodeId fused = graph.value(results[0]).producer;
  const Value &old_result = graph.value(graph.node(last).outputs[0]), &new_result = graph.value(results[0]);
  check(old_result.dtype == new_result.dtype && old_result.shape == new_result.shape,
        "replacing " + graph.node(last).name + " changes its type or shape from " +
            to_string(old_result.shape) + " to " + to_string(new_result.shape));
  editor.take_over_outputs(fused, last);
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) remove_if_unread(graph, *it);
  return fused;
}

namespace {

ValueId insert_before(Graph& graph, NodeId like, std::string_view suffix, Op op, std::vector<ValueId> inputs,
                      std::vector<Origin> origins) {
  GraphEditor editor(graph);
  const std::string name = graph.node(like).name + std::string(suffix);
  return append_node(editor, name, std::move(op), std::move(inputs), std::move(origins), {}, 1, like)[0];
}

}  // namespace

ValueId insert_like(Graph& graph, NodeId like, std::string_view suffix, Op op, std::vector<ValueId> inputs) {
  return insert_before(graph, like, suffix, std::move(op), std::move(inputs), graph.node(like).origins);
}
ValueId insert_layout(Graph& graph, NodeId like, std::string_view suffix, Op op,
                      std::vector<ValueId> inputs) {
  return insert_before(graph, like, suffix, std::move(op), std::move(inputs), {});
}

void remove_if_unread(Graph& graph, NodeId id) {
  if (id == kNoNode || graph.node(id).removed) return;
  const Node& node = graph.node(id);
  for (ValueId output : node.outputs) {
    if (output != kNoValue && (!graph.users(output).empty() || graph.is_output(output))) return;
  }
  if (is_awaited(graph, id)) return;
  std::set<NodeId> producers;
  for (ValueId input : node.inputs) {
    if (input != kNoValue) producers.insert(graph.value(input).producer);
  }
  GraphEditor(graph).remove_node(id);
  for (NodeId producer : producers) remove_if_unread(graph, producer);
}

bool bypass(Graph& graph, PassContext& context, NodeId node, ValueId value) {
  GraphEditor editor(graph);
  const ValueId result = result_of(graph, node);
  if (!editor.can_replace_uses(result, value) || !context.may_change()) return false;
  context.report_removal(graph, node);
  editor.replace_uses(result, value);
  remove_if_unread(graph, node);
  return true;
}

bool is_pointwise_layer(const Node& node) {
  return std::holds_alternative<PointwiseChain>(node.op) || std::holds_alternative<Pointwise>(node.op);
}

PointwiseProgram program_of(const Node& node) {
  if (const auto* chain = std::get_if<PointwiseChain>(&node.op)) return chain->program;
  const auto* single = std::get_if<Pointwise>(&node.op);
  if (!single) return {};
  PointwiseProgram program;
  program.input_count = static_cast<int>(node.inputs.size());
  PointwiseStep step{single->code, single->alpha, single->beta, {}};
  for (int i = 0; i < program.input_count; ++i) step.operands.push_back(i);
  program.steps.push_back(std::move(step));
  return program;
}

namespace {

// Longer programs gain nothing, and a chain of any length takes a time that grows with its length.
constexpr size_t kMostSteps = 256;

size_t step_count(const Node& node) {
  const auto* chain = std::get_if<PointwiseChain>(&node.op);
  return node.epilogue.steps.size() + (chain ? chain->program.steps.size() : 1);
}

// Is `tail` a pointwise node that alone reads the first result of `layer`, at the same shape and type?
bool follows_alone(const Graph& graph, NodeId layer, NodeId tail) {
  const Node &first = graph.node(layer), &second = graph.node(tail);
  if (!second.epilogue.empty() || !is_pointwise_layer(second)) return false;
  if (step_count(first) + step_count(second) > kMostSteps) return false;
  const ValueId joint = first.outputs[0];
  if (sole_user(graph, joint) != tail) return false;
  const Value &between = graph.value(joint), &result = graph.value(second.outputs[0]);
  if (between.shape != result.shape || between.dtype != result.dtype) return false;
  for (ValueId input : second.inputs) {
    if (input == kNoValue || graph.value(input).dtype != between.dtype) return false;
  }
  return true;
}

}  // namespace

bool can_append(const Graph& graph, NodeId layer, NodeId tail) {
  return follows_alone(graph, layer, tail) && is_float(graph.value(result_of(graph, layer)).dtype);
}

namespace {

bool is_commutative(PointwiseCode code) {
  return code == PointwiseCode::Add || code == PointwiseCode::Mul || code == PointwiseCode::Min ||
         code == PointwiseCode::Max;
}

// The program of `first` and then `tail`, which reads the result of `first` as `joint`. `inputs` are the
// values of the first program's inputs; the tail's other inputs are appended to them.
PointwiseProgram joined(PointwiseProgram program, std::vector<ValueId>& inputs, ValueId joint,
                        const PointwiseProgram& tail, const std::vector<ValueId>& tail_inputs) {
  const int old_inputs = program.input_count;
  for (ValueId input : tail_inputs) {
    if (input != joint && std::find(inputs.begin(), inputs.end(), input) == inputs.end())
      inputs.push_back(input);
  }
  program.input_count = static_cast<int>(inputs.size());
  // New inputs come behind the old ones, so results of earlier steps move up by as many places.
  for (PointwiseStep& step : program.steps) {
    for (int& operand : step.operands)
      operand += operand >= old_inputs ? program.input_count - old_inputs : 0;
  }
  const int first_step = program.input_count + static_cast<int>(program.steps.size());
  const int result = program.steps.empty() ? 0 : first_step - 1;
  for (PointwiseStep step : tail.steps) {
    for (int& operand : step.operands) {
      if (operand >= tail.input_count) {
        operand += first_step - tail.input_count;
        continue;
      }
      const ValueId input = tail_inputs[static_cast<size_t>(operand)];
      const auto place = std::find(inputs.begin(), inputs.end(), input) - inputs.begin();
      operand = input == joint ? result : static_cast<int>(place);
    }
    // Where order does not matter, the value that flows through the program comes first: one form for kernels
    // to know.
    const int flowing = program.input_count + static_cast<int>(program.steps.size()) - 1;
    const int before = program.steps.empty() ? 0 : flowing;
    if (is_commutative(step.code) && step.operands[1] == before)
      std::swap(step.operands[0], step.operands[1]);
    program.steps.push_back(std::move(step));
  }
  return program;
}

}  // namespace

bool append_to_epilogue(Graph& graph, PassContext& context, NodeId layer, NodeId tail) {
  if (!can_append(graph, layer, tail) || !context.may_change()) return false;
  const Node &first = graph.node(layer), &second = graph.node(tail);
  const ValueId joint = first.outputs[0];
  PointwiseProgram program = first.epilogue;
  if (program.empty()) program.input_count = 1;
  // Input 0 of an epilogue is the layer's own result; while the layer has no epilogue it is the same value as
  // `joint`.
  std::vector<ValueId> inputs = {kNoValue};
  inputs.insert(inputs.end(), first.inputs.begin() + static_cast<std::ptrdiff_t>(first.op_input_count()),
                first.inputs.end());
  program = joined(std::move(program), inputs, joint, program_of(second), second.inputs);
  context.report_fusion(graph, layer, tail);
  GraphEditor editor(graph);
  editor.absorb(layer, tail);
  editor.take_over_outputs(layer, tail);
  editor.set_epilogue(layer, std::move(program), {inputs.begin() + 1, inputs.end()});
  editor.move_behind_inputs(layer);  // an operand may be computed after the layer's old place
  return true;
}

bool join_pointwise(Graph& graph, PassContext& context, NodeId first, NodeId tail) {
  if (!is_pointwise_layer(graph.node(first)) || !graph.node(first).epilogue.empty()) return false;
  if (!follows_alone(graph, first, tail)) return false;
  // Integers of one dim may be the dims of a shape, which are followed through single operations.
  const Value &between = graph.value(result_of(graph, first)), &result = graph.value(result_of(graph, tail));
  const bool may_be_shape = between.shape.size() < 2 || between.contents || result.contents;
  if (!is_float(between.dtype) && (!is_integer(between.dtype) || may_be_shape)) return false;
  for (ValueId input : graph.node(first).inputs) {
    if (graph.value(input).dtype != graph.value(result_of(graph, first)).dtype) return false;
  }
  if (!context.may_change()) return false;
  std::vector<ValueId> inputs = graph.node(first).inputs;
  PointwiseProgram program = joined(program_of(graph.node(first)), inputs, result_of(graph, first),
                                    program_of(graph.node(tail)), graph.node(tail).inputs);
  context.report_fusion(graph, first, tail);
  GraphEditor editor(graph);
  editor.absorb(first, tail);
  editor.take_over_outputs(first, tail);
  editor.set_op(first, PointwiseChain{std::move(program)});
  editor.set_inputs(first, std::move(inputs));
  editor.move_behind_inputs(first);
  return true;
}

std::vector<DType> common_types(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<DType> types = graph.node(nodes[0]).allowed_types;
  for (const NodeId id : nodes)
    std::erase_if(types, [&](DType type) {
      const auto& allowed = graph.node(id).allowed_types;
      return std::find(allowed.begin(), allowed.end(), type) == allowed.end();
    });
  return types;
}

}  // namespace lathe
