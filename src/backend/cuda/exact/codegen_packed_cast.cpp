// SPDX-License-Identifier: Apache-2.0
//
// Casts from and to elements of 4 and 2 bits; all others are pointwise layers. A thread for the elements of a
// byte of the result. To integers of 4 and 2 bits even floats keep their low bits, as in ops/cast.cpp.
#include "backend/cuda/exact/packed.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kPackedCastRunner = "PackedCast";

std::vector<Tactic> list_packed_cast(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Cast>(node.op)) return {};
  Tactic t = linear_tactic(query, kPackedCastRunner, "cuda_packed_cast");
  const DType from = t.inputs[0].dtype, to = t.outputs[0].dtype;
  if (!is_packed(from) && !is_packed(to)) return {};
  t.support = readable(from);
  if (t.support.ok) t.support = readable(to);
  if (!node.epilogue.empty()) t.support = Support::no("no epilogue behind it");
  return {t};
}

LayerSource generate_packed_cast(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const DType to = tactic.outputs[0].dtype;
  KernelBuilder b = start_kernel(query, tactic, "packed_cast", to);
  b.set_fast_math(false);
  // Integers always saturate, but to powers of two.
  const auto& cast = std::get<Cast>(query.layer().op);
  const bool reals = is_float(tactic.inputs[0].dtype) || to == DType::Float8E8M0;
  b.set_cast({to, cast.saturate || !reals, cast.round});
  add_packed(b);
  begin_packed(b, to, element_count(output_shape(query)));
  b.line("const auto x = " + elements_of(b, 0, tactic.inputs[0].dtype) + ";");
  b.line(store_elements(b, to, "x[i]"));
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily packed_cast_family() {
  return {kPackedCastRunner, list_packed_cast, generate_packed_cast};
}

}  // namespace lathe::cuda
