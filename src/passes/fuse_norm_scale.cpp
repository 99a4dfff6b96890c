// SPDX-License-Identifier: Apache-2.0
//
//   LayerNorm(x) * g  ->  LayerNorm(x, g)        LayerNorm(x, [g]) + b  ->  LayerNorm(x, [g], b)
//
// g and b are constants of the normalised dims. Must not fire when the norm already has a scale or bias, when
// the constant varies over other dims, or when the norm's result is read elsewhere.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

// `constant` as a tensor of exactly the dims from `axis` on; leading ones are dropped.
std::optional<Tensor> normalised_dims(const Graph& graph, ValueId constant, const Shape& shape,
                                      int64_t axis) {
  const Value& value = graph.value(constant);
  if (!value.is_constant() || !value.constant.has_bytes()) return std::nullopt;
  const Shape wanted(shape.begin() + axis, shape.end());
  Shape trailing = value.shape;
  while (trailing.size() > wanted.size() && trailing.front().is_constant(1)) trailing.erase(trailing.begin());
  if (trailing != wanted) return std::nullopt;
  return value.constant.reshaped(to_extents(wanted));
}

bool fuse_norm_scale_at(Graph& graph, PassContext& context, NodeId norm) {
  const auto* op = plain_op<LayerNorm>(graph, norm);
  if (!op || graph.node(norm).outputs.size() != 1) return false;
  const ValueId result = result_of(graph, norm);
  const auto user = sole_user(graph, result);
  if (!user) return false;
  const bool scales = is_pointwise(graph, *user, PointwiseCode::Mul),
             adds = is_pointwise(graph, *user, PointwiseCode::Add);
  if (!scales && !adds) return false;
  std::vector<ValueId> inputs = graph.node(norm).inputs;
  inputs.resize(3, kNoValue);
  if (inputs[2] != kNoValue || (scales && inputs[1] != kNoValue)) return false;
  const ValueId constant = other_operand(graph, *user, result);
  if (constant == kNoValue || graph.value(constant).dtype != graph.value(result).dtype) return false;
  const Shape& shape = graph.value(result).shape;
  const int64_t axis = positive_axis(graph, result, op->axis);
  auto tensor = normalised_dims(graph, constant, shape, axis);
  if (!tensor || graph.value(result_of(graph, *user)).shape != shape || !context.may_change()) return false;
  context.report_fusion(graph, norm, *user);
  GraphEditor editor(graph);
  inputs[scales ? 1 : 2] = editor.add_constant(graph.value(constant).name, std::move(*tensor));
  if (inputs[2] == kNoValue) inputs.pop_back();
  editor.absorb(norm, *user);
  editor.take_over_outputs(norm, *user);
  editor.set_inputs(norm, std::move(inputs));
  return true;
}

}  // namespace

bool fuse_norm_scale(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    while (!graph.node(id).removed && fuse_norm_scale_at(graph, context, id)) changed = true;
  }
  return changed;
}

}  // namespace lathe
