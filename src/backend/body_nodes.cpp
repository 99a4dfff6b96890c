// SPDX-License-Identifier: Apache-2.0
#include "backend/body_nodes.h"

#include <algorithm>
#include <climits>

#include "backend/no_elements.h"
#include "ir/new_names.h"
#include "ir/substitute.h"
#include "ir/symbol_extents.h"
#include "ops/concrete_shapes.h"
#include "ops/interpreter.h"

namespace lathe {
namespace {

// What is assumed of a dim that the body names itself, when tactics are listed.
constexpr SymbolRange kOwnSymbol{1, 64, 1 << 16};

// Operands have the types of the body's values. `is_linear`: and lie as they do between its nodes.
bool has_own_types(const Graph& graph, const std::vector<ValueId>& operands,
                   const std::vector<TensorType>& types, bool& is_linear) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == kNoValue || types[i].dtype == DType::Undefined) continue;
    if (types[i].dtype != graph.value(operands[i]).dtype) return false;
    is_linear &= types[i].format.is_linear();
  }
  return true;
}

}  // namespace

SymbolRanges ranges_inside(const Graph& body, const SymbolRanges& ranges) {
  SymbolRanges inside = ranges;
  for (const std::string& name : body.symbols()) inside.emplace(name, kOwnSymbol);
  return inside;
}

bool only_changes_shape(const Node& node) {
  if (!node.epilogue.empty()) return false;
  const auto* pointwise = std::get_if<Pointwise>(&node.op);
  return std::holds_alternative<ReshapeOp>(node.op) ||
         (pointwise && pointwise->code == PointwiseCode::Identity);
}

std::vector<Tensor> with_other_shape(const Graph& graph, const Node& node, std::span<const Tensor> operands,
                                     const SymbolValues& symbols) {
  if (std::holds_alternative<Pointwise>(node.op)) return {operands[0]};
  return interpret_node(graph, node, operands, symbols);
}

bool reads_only_extents(const Node& node) {
  return node.epilogue.empty() &&
         (std::holds_alternative<ShapeOf>(node.op) || std::holds_alternative<ShapeTensor>(node.op));
}

bool wants_kernel(const Graph& graph, const Node& node) {
  return bodies_of(node.op).empty() && !only_changes_shape(node) && !reads_only_extents(node) &&
         new_names(graph, node).empty();
}

ChosenTactic choose_for_body(const LayerQuery& query, std::vector<Tactic> listed,
                             const std::function<bool(const Tactic&)>& is_dear) {
  ChosenTactic chosen;
  int best = INT_MAX;
  for (Tactic& tactic : listed) {
    if (!tactic.support.ok) chosen.reasons += (chosen.reasons.empty() ? "" : "; ") + tactic.support.reason;
    bool is_linear = true;
    if (!tactic.support.ok || tactic.last_resort || tactic.is_view ||
        !has_own_types(query.graph, query.layer().inputs, tactic.inputs, is_linear) ||
        !has_own_types(query.graph, query.layer().outputs, tactic.outputs, is_linear))
      continue;
    const bool is_exact = tactic.error_factor <= 1 && tactic.keeps_nan;
    const int rank = (is_exact ? 0 : 4) + (is_linear ? 0 : 2) + (is_dear(tactic) ? 1 : 0);
    const bool sooner =
        rank == best && tactic.expected_us > 0 && tactic.expected_us < chosen.tactic->expected_us;
    if (rank >= best && !sooner) continue;
    chosen.tactic = std::move(tactic);
    best = rank;
  }
  return chosen;
}

std::string without_kernel(const Graph& body, const SymbolRanges& ranges,
                           const std::function<ChosenTactic(const LayerQuery&)>& choose) {
  const SymbolRanges inside = ranges_inside(body, ranges);
  for (const NodeId id : body.order()) {
    const Node& node = body.node(id);
    for (const Body& inner : bodies_of(node.op))
      if (std::string reason = without_kernel(inner.graph(), inside, choose); !reason.empty()) return reason;
    if (!wants_kernel(body, node)) continue;
    const ChosenTactic chosen = choose({body, id, inside});
    if (chosen.tactic) continue;
    const std::string what =
        "'" + node.name + "' (" + std::string(op_display_name(node.op)) + ") of its body has no kernel";
    return chosen.reasons.empty() ? what : what + ": " + chosen.reasons;
  }
  return "";
}

std::optional<BodyExtents> body_extents(const Graph& graph, NodeId id, std::string_view runner,
                                        const std::vector<int64_t>& key, const SymbolValues& symbols) {
  // A size that nobody knows yet: the reference finds out. Otherwise the extents of operands are what their
  // dims say.
  if (std::find(key.begin(), key.end(), -1) != key.end()) return std::nullopt;
  const Node& node = graph.node(id);
  check_concrete_shapes(graph, std::span(&id, 1), symbols);
  BodyExtents extents{upper_extents(graph, node.inputs, symbols),
                      upper_extents(graph, node.outputs, symbols)};
  const bool has_elements = std::any_of(extents.outputs.begin(), extents.outputs.end(),
                                        [](const Extents& e) { return element_count(e) > 0; });
  if (!has_elements || needs_reference(node, runner, extents.inputs, extents.outputs)) return std::nullopt;
  return extents;
}

}  // namespace lathe
