// SPDX-License-Identifier: Apache-2.0
#include "backend/appending.h"

#include <algorithm>

namespace lathe {

Support may_convert(const LayerQuery& query, const Format& format) {
  const Node& node = query.layer();
  if (format.is_linear() || !std::holds_alternative<Concat>(node.op)) return {};
  const auto is_outside = [&](const std::vector<ValueId>& all, ValueId v) {
    return std::find(all.begin(), all.end(), v) != all.end() && query.graph.value(v).format.is_linear();
  };
  if (!is_outside(query.graph.inputs(), node.inputs[0]) ||
      !is_outside(query.graph.outputs(), node.outputs[0]))
    return {};
  return Support::no("an output that continues an input stays in its format");
}

}  // namespace lathe
