// SPDX-License-Identifier: Apache-2.0
#include "passes/gelu_tail.h"

#include "passes/match.h"

namespace lathe {
namespace {

// Is `value` x * 0.5 (or x / 2), computed for one reader only?
NodeId half_of(const Graph& graph, ValueId value, ValueId x) {
  for (PointwiseCode code : {PointwiseCode::Mul, PointwiseCode::Div}) {
    const NodeId node = pointwise_producer(graph, value, code);
    if (node == kNoNode || !sole_user(graph, value)) continue;
    const auto operand = operand_with_scalar(graph, node);
    const double expected = code == PointwiseCode::Mul ? 0.5 : 2;
    const bool swapped = code == PointwiseCode::Div && operand && operand->scalar_first;
    if (operand && operand->value == x && operand->scalar == expected && !swapped) return node;
  }
  return kNoNode;
}

}  // namespace

std::optional<std::vector<NodeId>> match_gelu_tail(const Graph& graph, ValueId f, ValueId x) {
  const auto add = sole_user(graph, f);
  if (!add || !is_pointwise(graph, *add, PointwiseCode::Add)) return std::nullopt;
  if (const auto one = operand_with_scalar(graph, *add); !one || one->value != f || one->scalar != 1)
    return std::nullopt;
  std::vector<NodeId> nodes = {*add};
  bool needs_x = true, needs_half = true;
  while (needs_x || needs_half) {
    const ValueId product = result_of(graph, nodes.back());
    const auto next = sole_user(graph, product);
    if (!next || !is_pointwise(graph, *next, PointwiseCode::Mul)) return std::nullopt;
    const ValueId factor = other_operand(graph, *next, product);
    if (factor == kNoValue) return std::nullopt;
    if (const NodeId half = half_of(graph, factor, x); needs_x && needs_half && half != kNoNode) {
      nodes.insert(nodes.begin(), half);
      needs_x = needs_half = false;
    } else if (needs_x && factor == x) {
      needs_x = false;
    } else if (const auto scalar = scalar_constant(graph, factor); needs_half && scalar == 0.5) {
      needs_half = false;
    } else {
      return std::nullopt;
    }
    nodes.push_back(*next);
  }
  const Value &in = graph.value(x), &out = graph.value(result_of(graph, nodes.back()));
  if (in.shape != out.shape || in.dtype != out.dtype || !is_float(in.dtype)) return std::nullopt;
  return nodes;
}

}  // namespace lathe
