// SPDX-License-Identifier: Apache-2.0
//
//   Cast[float16](f(Cast[float32](x)))  ->  f(x)        x in float16 or bfloat16, f a norm or a Softmax
//
// Models that are stored in 16 bits compute what sums a row in FP32. Kernels for these operators sum in FP32
// whatever they read, and round the result once, as the model does.
//
// Must not fire when the FP32 result is read elsewhere, when the casts are of different types, or when a
// scale or bias is no number of the narrow type.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool sums_rows(const Node& node) {
  return std::holds_alternative<LayerNorm>(node.op) || std::holds_alternative<GroupNorm>(node.op) ||
         std::holds_alternative<Softmax>(node.op);
}

// Constants in the narrow type; nullopt where an operand is none, or its numbers change.
std::optional<std::vector<Tensor>> narrowed_constants(const Graph& graph, const Node& node, DType type) {
  std::vector<Tensor> constants;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const Value& value = graph.value(node.inputs[i]);
    if (!value.is_constant() || !value.constant.has_bytes()) return std::nullopt;
    const std::vector<double> numbers = value.constant.to_doubles();
    constants.push_back(Tensor::from_doubles(type, value.constant.extents(), numbers));
    if (constants.back().to_doubles() != numbers) return std::nullopt;
  }
  return constants;
}

bool absorb(Graph& graph, PassContext& context, NodeId id) {
  const Node& node = graph.node(id);
  if (!sums_rows(node) || !node.epilogue.empty() || node.outputs.size() != 1) return false;
  const auto user = sole_user(graph, result_of(graph, id));
  if (!producer_op<Cast>(graph, node.inputs[0]) || !user || !plain_op<Cast>(graph, *user)) return false;
  const ValueId x = graph.node(graph.value(node.inputs[0]).producer).inputs[0];
  const DType narrow = graph.value(x).dtype;
  if ((narrow != DType::Float16 && narrow != DType::BFloat16) ||
      graph.value(node.inputs[0]).dtype != DType::Float32 || plain_op<Cast>(graph, *user)->to != narrow)
    return false;
  auto constants = narrowed_constants(graph, node, narrow);
  if (!constants || !context.may_change()) return false;
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = x;
  GraphEditor editor(graph);
  size_t next = 0;
  for (size_t i = 1; i < inputs.size(); ++i)
    if (inputs[i] != kNoValue)
      inputs[i] = editor.add_constant(graph.value(inputs[i]).name, std::move((*constants)[next++]));
  replace_nodes(graph, context, {id, *user}, Op(graph.node(id).op), std::move(inputs));
  return true;
}

}  // namespace

bool absorb_casts(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= absorb(graph, context, id);
  return changed;
}

}  // namespace lathe
