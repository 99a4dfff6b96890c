// SPDX-License-Identifier: Apache-2.0
#include "backend/shape_check.h"

#include <optional>
#include <span>

#include "base/error.h"
#include "ir/symbol_extents.h"

namespace lathe {
namespace {

void check_view(const ProgramSpec& spec, const Node& node, ValueId id, const SymbolValues& symbols) {
  if (id == kNoValue) return;
  const Placement& placement = spec.memory.placements[static_cast<size_t>(id)];
  if (placement.kind != Placement::Kind::View) return;
  for (const std::string& name : placement.view_offset.data_dependent_names())
    if (!symbols.contains(name)) return;
  const Value &value = spec.graph->value(id), &base = spec.graph->value(placement.base);
  const int64_t offset = placement.view_offset.evaluate(symbols), bytes = stored_bytes(value, symbols);
  const int64_t room = stored_bytes(base, symbols);
  if (bytes == 0 || (offset >= 0 && offset <= room && bytes <= room - offset)) return;
  throw_input_error("layer '" + node.name + "': '" + value.name + "' of " +
                    to_string(upper_extents(value.shape, symbols)) + " reaches outside of '" + base.name +
                    "' of " + to_string(upper_extents(base.shape, symbols)));
}

// What an operand is spread over: the dims of the result, but for the last ones that are matrices of a
// product.
struct Spread {
  Shape over;
  size_t matrix_dims = 0;
};

Shape scores_of(const Graph& graph, const Node& node) {
  const Shape &q = graph.value(node.inputs[0]).shape, &k = graph.value(node.inputs[1]).shape;
  if (std::get<Attention>(node.op).layout == AttentionLayout::BSHD) return {q[0], q[2], q[1], k[1]};
  return {q[0], q[1], q[2], k[2]};
}

// Nothing for operands that are not spread, or where the kernel looks at the extents of the run.
std::optional<Spread> spread_of(const Graph& graph, const Node& node, size_t input, LateSpread late) {
  const Shape& result = graph.value(node.outputs[0]).shape;
  if (input >= node.op_input_count()) return Spread{result};
  const auto is_matrix = [&](size_t i) { return graph.value(node.inputs[i]).shape.size() >= 2; };
  if (std::holds_alternative<MatMul>(node.op) && is_matrix(0) && is_matrix(1)) return Spread{result, 2};
  if (late == LateSpread::PointwiseLayers) return std::nullopt;
  if (std::holds_alternative<Attention>(node.op) && input == 3) return Spread{scores_of(graph, node)};
  const bool pointwise =
      std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<PointwiseChain>(node.op);
  return pointwise ? std::optional(Spread{result}) : std::nullopt;
}

void check_spread(const Graph& graph, const Node& node, size_t input, const Spread& spread,
                  const SymbolValues& symbols) {
  const Value& operand = graph.value(node.inputs[input]);
  const size_t rank = std::min(operand.shape.size(), spread.over.size());
  for (size_t back = spread.matrix_dims + 1; back <= rank; ++back) {
    const Dim& from = operand.shape[operand.shape.size() - back];
    const Dim& to = spread.over[spread.over.size() - back];
    if (from.is_constant() || from == to || upper_extent(from, symbols) != 1 ||
        upper_extent(to, symbols) == 1)
      continue;
    throw_input_error("layer '" + node.name + "': operand '" + operand.name + "' of " +
                      to_string(operand.shape) + " has the size 1 in '" + from.to_string() +
                      "', and the engine was not built to spread it over the " +
                      std::to_string(upper_extent(to, symbols)) + " of '" + to.to_string() +
                      "'; build it for these shapes alone, or give the dim the size 1 in the model");
  }
}

}  // namespace

bool fits_at_upper_bounds(const LayerQuery& query) {
  SymbolValues values = query.opt_values();
  const auto add_bounds = [&](const std::vector<ValueId>& operands) {
    for (const ValueId id : operands) {
      if (id == kNoValue) continue;
      for (const Dim& dim : query.graph.value(id).shape)
        if (const auto name = dim.as_symbol(); name && !values.contains(*name))
          values.emplace(*name, upper_extent(dim, values));
    }
  };
  add_bounds(query.layer().inputs);
  add_bounds(query.layer().outputs);
  try {
    check_concrete_shapes(query.graph, {&query.node, 1}, values);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input) throw;
    return false;
  }
  return true;
}

void ShapeCheck::check(size_t first, size_t last) {
  const Graph& graph = *spec_.graph;
  for (const NodeId id : std::span(graph.order().data() + first, last - first)) {
    shapes_.check(id);
    const Node& node = graph.node(id);
    for (const ValueId input : node.inputs) check_view(spec_, node, input, symbols_);
    for (const ValueId output : node.outputs) check_view(spec_, node, output, symbols_);
    if (node.outputs[0] == kNoValue) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      if (const auto spread = spread_of(graph, node, i, late_))
        check_spread(graph, node, i, *spread, symbols_);
    }
  }
}

}  // namespace lathe
