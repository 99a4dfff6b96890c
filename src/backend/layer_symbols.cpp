// SPDX-License-Identifier: Apache-2.0
#include "backend/layer_symbols.h"

#include <algorithm>
#include <set>

#include "ir/substitute.h"

namespace lathe {

std::vector<std::string> symbols_of(const Graph& graph, const Node& node) {
  std::set<std::string> names;
  const auto add = [&](const Shape& shape) {
    for (const Dim& dim : shape) names.merge(dim.symbols());
  };
  for (const auto* operands : {&node.inputs, &node.outputs})
    for (const ValueId id : *operands)
      if (id != kNoValue) {
        add(graph.value(id).shape);
        if (graph.value(id).contents) add(*graph.value(id).contents);
      }
  names.merge(symbols_of(node.op));
  return {names.begin(), names.end()};
}

std::vector<int64_t> shape_key(const std::vector<std::string>& symbols, const SymbolValues& values) {
  std::vector<int64_t> key;
  for (const std::string& name : symbols) {
    const auto found = values.find(name);
    key.push_back(found == values.end() ? -1 : found->second);
  }
  return key;
}

bool have_same_values(const std::vector<std::string>& symbols, const SymbolValues& one,
                      const SymbolValues& other) {
  return std::all_of(symbols.begin(), symbols.end(), [&](const std::string& name) {
    const auto a = one.find(name), b = other.find(name);
    return a != one.end() && b != other.end() && a->second == b->second;
  });
}

}  // namespace lathe
