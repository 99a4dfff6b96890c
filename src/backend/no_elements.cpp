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

}  // namespace

bool has_empty_operand(const LayerQuery& query) {
  const SymbolValues opt = query.opt_values();
  const auto any_empty = [&](const std::vector<ValueId>& operands) {
    return std::any_of(operands.begin(), operands.end(), [&](ValueId id) {
      return id != kNoValue && is_empty(upper_extents(query.graph.value(id).shape, opt));
    });
  };
  return any_empty(query.layer().inputs) || any_empty(query.layer().outputs);
}

bool may_list(std::string_view runner, const LayerQuery& query) {
  return runner == kViewRunner || runner == kReferenceRunner ||
         std::holds_alternative<Reformat>(query.layer().op) || !bodies_of(query.layer().op).empty() ||
         !has_empty_operand(query);
}

bool makes_elements_of_none(const Node& node, std::span<const Extents> inputs,
                            std::span<const Extents> outputs) {
  if (std::holds_alternative<Concat>(node.op) || !bodies_of(node.op).empty()) return false;
  bool reads_none = false, writes = false;
  for (size_t i = 0; i < inputs.size(); ++i) reads_none |= node.inputs[i] != kNoValue && is_empty(inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i) writes |= node.outputs[i] != kNoValue && !is_empty(outputs[i]);
  return reads_none && writes;
}

}  // namespace lathe
