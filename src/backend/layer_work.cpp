// SPDX-License-Identifier: Apache-2.0
#include "backend/layer_work.h"

#include "ir/symbol_extents.h"
#include "ops/op_def.h"

namespace lathe {

LayerWork work_of(const LayerQuery& query, const Tactic& tactic) {
  const Node& node = query.layer();
  const SymbolValues opt = query.opt_values();
  std::vector<Extents> inputs, outputs;
  LayerWork work;
  const auto add = [&](ValueId id, const TensorType& type, std::vector<Extents>& list) {
    list.push_back(id == kNoValue ? Extents{}
                                  : bounded_extents(query.graph.value(id).shape, opt, query.ranges));
    if (id == kNoValue) return;
    const DType dtype = type.dtype == DType::Undefined ? query.graph.value(id).dtype : type.dtype;
    work.bytes += static_cast<double>(storage_bytes(dtype, list.back(), type.format));
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) add(node.inputs[i], tactic.inputs[i], inputs);
  for (size_t i = 0; i < node.outputs.size(); ++i) add(node.outputs[i], tactic.outputs[i], outputs);
  work.ops = node_flops(node, {inputs, outputs});
  return work;
}

}  // namespace lathe
