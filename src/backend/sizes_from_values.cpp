// SPDX-License-Identifier: Apache-2.0
#include "backend/sizes_from_values.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/substitute.h"
#include "ir/symbol_extents.h"
#include "ops/op_def.h"

namespace lathe {
namespace {

// The operand as the shape rule is to see it: with extents, and with values where there are few.
Value known_operand(const Value& value, ValueId id, const std::function<Tensor(ValueId)>& read,
                    const SymbolValues& symbols) {
  Value known = value;
  const Extents extents = upper_extents(value.shape, symbols);
  known.shape = to_shape(extents);
  known.contents.reset();
  if (value.is_constant() || extents.size() > 1 || element_count(extents) > kMostSizeElements) return known;
  known.constant = read(id);
  return known;
}

void check_bound(const Dim& upper, int64_t value, const SymbolValues& symbols, const std::string& name) {
  const int64_t most = upper_extent(upper, symbols);
  if (value < 0 || value > most)
    throw_input_error("its values give \"" + name + "\" = " + std::to_string(value) +
                      ", and the model says " + std::to_string(most) + " at most");
}

}  // namespace

bool find_sizes_from_values(const Graph& graph, const Node& node, std::span<const std::string> wanted,
                            const std::function<Tensor(ValueId)>& read, SymbolValues& symbols) try {
  std::vector<Value> operands(node.inputs.size());
  std::vector<const Value*> inputs(node.inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    operands[i] = known_operand(graph.value(node.inputs[i]), node.inputs[i], read, symbols);
    inputs[i] = &operands[i];
  }
  DimReplacements values;  // bodies and attributes may name dims, too
  for (const auto& [name, value] : symbols) values.emplace(name, Dim(value));
  const auto results = infer(substitute_dims(node.op, values), node.epilogue,
                             InferContext{node.name, inputs, node.outputs.size()});
  const std::set<std::string> names(wanted.begin(), wanted.end());
  SymbolValues found;
  for (size_t i = 0; i < results.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const Shape& shape = graph.value(node.outputs[i]).shape;
    for (size_t d = 0; d < std::min(shape.size(), results[i].shape.size()); ++d) {
      const auto name = shape[d].as_symbol();
      if (!name || !names.contains(*name) || !results[i].shape[d].is_constant()) continue;
      const int64_t value = results[i].shape[d].value();
      check_bound(data_dependent_uppers(shape[d]).begin()->second, value, symbols, *name);
      found.emplace(*name, value);
    }
  }
  if (found.size() < names.size()) return false;
  symbols.merge(found);
  return true;
} catch (Error& error) {
  error.add_context("layer '" + node.name + "'");
  throw;
}

}  // namespace lathe
