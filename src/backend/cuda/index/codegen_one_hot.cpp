// SPDX-License-Identifier: Apache-2.0
//
// OneHot: each element of the result looks whether its index says so. An index outside of the depth selects
// nothing, as ONNX has it. The result is written once; indices are read once for each element, from a cache.
#include "backend/cuda/codegen/element_kernel.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kOneHotRunner = "OneHot";

std::vector<Tactic> list_one_hot(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<OneHot>(query.layer().op)) return {};
  const DType type = query.graph.value(query.layer().outputs[0]).number_type(),
              index = query.graph.value(query.layer().inputs[0]).number_type();
  Tactic t = typed_tactic(query, kOneHotRunner, "cuda_one_hot", {index, kLinear}, {type, kLinear});
  t.inputs[2] = {type, kLinear};
  if (const Support s = stored(t); !s.ok) t.support = s;
  return {t};
}

LayerSource generate_one_hot(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Shape& y = output_shape(query);
  const size_t axis = axis_of(std::get<OneHot>(query.layer().op).axis, y.size());
  KernelBuilder b = start_kernel(query, tactic, "one_hot", tactic.outputs[0].dtype);
  begin_elements(b, query, tactic, 1);
  const std::string inner = b.number(product(y, axis + 1, y.size())), depth = b.number(y[axis]),
                    values = b.input(2, tactic.inputs[2].dtype);
  b.line("long long hot = to_integer(widen(" + b.input(0, tactic.inputs[0].dtype) + "[at / " + inner + " / " +
         depth + " * " + inner + " + at % " + inner + "]));\nif (hot < 0) hot += " + depth +
         ";\nv[0] = widen(" + values + "[hot == at / " + inner + " % " + depth + "]);");
  return {{end_elements(b, 1)}};
}

}  // namespace

GeneratedFamily one_hot_family() {
  return {kOneHotRunner, list_one_hot, generate_one_hot};
}

}  // namespace lathe::cuda
