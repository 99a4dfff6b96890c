// SPDX-License-Identifier: Apache-2.0
#include "ir/new_names.h"

namespace lathe {

std::set<std::string> new_names(const Graph& graph, const Node& node) {
  std::set<std::string> names;
  for (const ValueId output : node.outputs)
    if (output != kNoValue)
      for (const Dim& dim : graph.value(output).shape)
        if (!dim.is_constant()) names.merge(dim.data_dependent_names());
  if (names.empty()) return names;
  for (const ValueId input : node.inputs)
    if (input != kNoValue)
      for (const Dim& dim : graph.value(input).shape)
        for (const std::string& known : dim.symbols()) names.erase(known);
  return names;
}

}  // namespace lathe
