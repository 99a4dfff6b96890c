// SPDX-License-Identifier: Apache-2.0
#include "ir/layer_types.h"

#include "base/error.h"

namespace lathe {

std::optional<DType> DemandedTypes::output(size_t index) const {
  if (outputs.empty()) return std::nullopt;
  if (outputs.size() == 1) return outputs[0];
  check(index < outputs.size(), "a type is demanded for each output");
  return outputs[index];
}

DemandedTypes LayerTypes::of(const Node& node) const {
  DemandedTypes demanded;
  if (by_node.empty()) return demanded;
  for (const Origin& origin : node.origins) {
    const auto found = by_node.find(origin.name);
    if (found == by_node.end()) continue;
    const DemandedTypes& one = found->second;
    demanded.is_required |= one.is_required;
    if (one.compute && (!demanded.compute || *one.compute == DType::Float32)) demanded.compute = one.compute;
    const bool has_results = one.outputs.size() <= 1 || one.outputs.size() == node.outputs.size();
    if (&origin == &node.origins.back() && has_results) demanded.outputs = one.outputs;
  }
  return demanded;
}

}  // namespace lathe
