// SPDX-License-Identifier: Apache-2.0
#include "passes/match.h"

namespace lathe {

std::optional<NodeId> sole_user(const Graph& graph, ValueId value) {
  if (value == kNoValue || graph.is_output(value)) return std::nullopt;
  const auto users = graph.users(value);
  if (users.size() != 1) return std::nullopt;
  return users[0];
}

bool is_pointwise(const Graph& graph, NodeId node, PointwiseCode code) {
  const auto* op = plain_op<Pointwise>(graph, node);
  return op && op->code == code;
}

NodeId pointwise_producer(const Graph& graph, ValueId value, PointwiseCode code) {
  if (value == kNoValue) return kNoNode;
  const NodeId node = graph.value(value).producer;
  return node != kNoNode && is_pointwise(graph, node, code) ? node : kNoNode;
}

int64_t positive_axis(const Graph& graph, ValueId value, int64_t axis) {
  return axis < 0 ? axis + static_cast<int64_t>(graph.value(value).shape.size()) : axis;
}

std::optional<double> scalar_constant(const Graph& graph, ValueId value) {
  if (value == kNoValue) return std::nullopt;
  const Tensor& tensor = graph.value(value).constant;
  if (!tensor || tensor.size() != 1 || !tensor.has_bytes()) return std::nullopt;
  return tensor.to_doubles()[0];
}

std::optional<WithScalar> operand_with_scalar(const Graph& graph, NodeId node) {
  const auto& inputs = graph.node(node).inputs;
  if (inputs.size() != 2) return std::nullopt;
  if (const auto scalar = scalar_constant(graph, inputs[1])) return WithScalar{inputs[0], *scalar, false};
  if (const auto scalar = scalar_constant(graph, inputs[0])) return WithScalar{inputs[1], *scalar, true};
  return std::nullopt;
}

ValueId other_operand(const Graph& graph, NodeId node, ValueId value) {
  const auto& inputs = graph.node(node).inputs;
  if (inputs.size() != 2 || inputs[0] == inputs[1]) return kNoValue;
  if (inputs[0] == value) return inputs[1];
  if (inputs[1] == value) return inputs[0];
  return kNoValue;
}

bool same_float_type(const Graph& graph, std::initializer_list<ValueId> values) {
  const DType dtype = graph.value(*values.begin()).dtype;
  for (ValueId value : values) {
    if (graph.value(value).dtype != dtype) return false;
  }
  return is_float(dtype);
}

ValueId result_of(const Graph& graph, NodeId node) {
  return graph.node(node).outputs[0];
}

bool is_step(const PointwiseProgram& program, size_t i, PointwiseCode code,
             const std::vector<int>& operands) {
  return program.steps[i].code == code && program.steps[i].operands == operands;
}

bool only_rounds(const PointwiseProgram& program) {
  if (program.input_count != 1 || program.steps.empty() || program.steps.size() > 2) return false;
  if (program.steps.size() == 1) return program.steps[0].code == PointwiseCode::RoundToE4M3;
  return program.steps[0].code == PointwiseCode::Clip && program.steps[1].code == PointwiseCode::RoundTo;
}

}  // namespace lathe
