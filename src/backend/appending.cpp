// SPDX-License-Identifier: Apache-2.0
#include "backend/appending.h"

#include <algorithm>

namespace lathe {

Support may_convert(const LayerQuery& query, const Format& format) {
  const Node& node = query.layer();
  const auto* concat = std::get_if<Concat>(&node.op);
  if (format.is_linear() || concat == nullptr) return {};
  const auto is_outside = [&](const std::vector<ValueId>& all, ValueId v) {
    return std::find(all.begin(), all.end(), v) != all.end() && query.graph.value(v).format.is_linear();
  };
  const Shape& past = query.graph.value(node.inputs[0]).shape;
  const int64_t axis = normalize_axis(concat->axis, static_cast<int64_t>(past.size()), "Concat axis");
  const bool grows = !past[static_cast<size_t>(axis)].is_constant();
  if (!grows || !is_outside(query.graph.inputs(), node.inputs[0]) ||
      !is_outside(query.graph.outputs(), node.outputs[0]))
    return {};
  return Support::no("an output that continues an input stays in its format");
}

}  // namespace lathe
