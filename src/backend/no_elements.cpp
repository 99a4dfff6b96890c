// SPDX-License-Identifier: Apache-2.0
#include "backend/no_elements.h"

#include <algorithm>

#include "backend/reference_layer.h"
#include "backend/view.h"
#include "ir/symbol_extents.h"

namespace lathe {
namespace {

bool is_empty(const Extents& extents) {
  return std::find(extents.begin(), extents.end(), 0) != extents.end();
}

// Operands from here on say what is to be done, and hold no elements of it: axes, bounds, sizes.
size_t data_operands(const Node& node) {
  const bool first = std::holds_alternative<Reduce>(node.op) || std::holds_alternative<Slice>(node.op) ||
                     std::holds_alternative<Pad>(node.op) || std::holds_alternative<Resize>(node.op) ||
                     std::holds_alternative<ReshapeOp>(node.op) || std::holds_alternative<Expand>(node.op) ||
                     std::holds_alternative<Tile>(node.op);
  return first ? 1 : node.op_input_count();
}
bool holds_data(const Node& node, size_t operand) {
  return node.inputs[operand] != kNoValue &&
         (operand < data_operands(node) || operand >= node.op_input_count());
}
bool is_scatter(const Node& node) {
  return std::holds_alternative<ScatterElements>(node.op) || std::holds_alternative<ScatterND>(node.op);
}

}  // namespace

bool has_empty_operand(const LayerQuery& query) {
  const SymbolValues opt = query.opt_values();
  const Node& node = query.layer();
  const auto is_empty_value = [&](ValueId id) {
    return id != kNoValue && is_empty(upper_extents(query.graph.value(id).shape, opt));
  };
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (holds_data(node, i) && is_empty_value(node.inputs[i])) return true;
  return std::any_of(node.outputs.begin(), node.outputs.end(), is_empty_value);
}

bool may_list(std::string_view runner, const LayerQuery& query) {
  return runner == kViewRunner || runner == kReferenceRunner || runner == kNoElementsRunner ||
         std::holds_alternative<Reformat>(query.layer().op) || !bodies_of(query.layer().op).empty() ||
         !has_empty_operand(query);
}

bool makes_elements_of_none(const Node& node, std::span<const Extents> inputs,
                            std::span<const Extents> outputs) {
  if (std::holds_alternative<Concat>(node.op) || !bodies_of(node.op).empty()) return false;
  bool reads_none = false, writes = false;
  const size_t read = is_scatter(node) ? 1 : inputs.size();
  for (size_t i = 0; i < read; ++i) reads_none |= holds_data(node, i) && is_empty(inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i) writes |= node.outputs[i] != kNoValue && !is_empty(outputs[i]);
  return reads_none && writes;
}

bool needs_reference(const Node& node, std::string_view runner, std::span<const Extents> inputs,
                     std::span<const Extents> outputs) {
  return runner != kNoElementsRunner && makes_elements_of_none(node, inputs, outputs);
}

}  // namespace lathe
