// SPDX-License-Identifier: Apache-2.0
//
// GatherND: each address names a block of the data, which is copied. A thread has one vector of the result.
//
// Bytes: addresses read once, the blocks that they name read and written once. An address outside the data
// gives zeros, and no memory outside is read.
#include "backend/cuda/codegen/element_kernel.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kGatherNdRunner = "GatherND";

std::vector<Tactic> list_gather_nd(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<GatherND>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    const Value& data = query.graph.value(node.inputs[0]);
    Tactic t = typed_tactic(query, kGatherNdRunner, "cuda_gather_nd",
                            {data.is_constant() ? data.dtype : type, kLinear}, {type, kLinear});
    if (const Support s = stored(t); !s.ok) t.support = s;
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_gather_nd(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Shape &x = input_shape(query, 0), &indices = input_shape(query, 1);
  const auto batch = static_cast<size_t>(std::get<GatherND>(query.layer().op).batch_dims);
  const auto length = static_cast<size_t>(indices.back().value());
  const Dim block = product(x, batch + length, x.size());
  const int v = own_vector(query, tactic, block);
  KernelBuilder b = start_kernel(query, tactic, "gather_nd", tactic.outputs[0].dtype);
  begin_elements(b, query, tactic, v);
  const std::string n = b.number(block), index = b.input(1, tactic.inputs[1].dtype);
  b.line("const idx address = at / " + n + ";\nbool inside = true;\nidx row = address / " +
         b.number(product(indices, batch, indices.size() - 1)) + ";");
  for (size_t k = 0; k < length; ++k) {
    const std::string extent = b.number(x[batch + k]);
    b.line("{\nlong long i = widen(" + index + "[address * " + std::to_string(length) + " + " +
           std::to_string(k) + "]);\nif (i < 0) i += " + extent + ";\ninside = inside && i >= 0 && i < " +
           extent + ";\nrow = row * " + extent + " + (idx)i;\n}");
  }
  b.line("if (inside) load(" + b.input(0, tactic.inputs[0].dtype) + " + row * " + n + " + at % " + n +
         ", v);");
  return {{end_elements(b, v)}};
}

}  // namespace

GeneratedFamily gather_nd_family() {
  return {kGatherNdRunner, list_gather_nd, generate_gather_nd};
}

}  // namespace lathe::cuda
