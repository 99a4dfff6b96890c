// SPDX-License-Identifier: Apache-2.0
//
// Lrn: each element divided by a power of the squares of its neighbours along the channels. A thread has one
// vector of the result; neighbours come from the L1 and the L2 as often as the window is wide.
#include "backend/cuda/codegen/element_kernel.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kLrnRunner = "Lrn";

std::vector<Tactic> list_lrn(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<Lrn>(query.layer().op)) return {};
  std::vector<Format> formats = {kLinear};
  if (output_shape(query).size() >= 3) formats.push_back(kChannelsLast);
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query))
    for (const Format& format : formats) {
      Tactic t = typed_tactic(query, kLrnRunner, "cuda_lrn", {type, format}, {type, format});
      if (!is_kernel_float(type)) t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
      tactics.push_back(std::move(t));
    }
  return tactics;
}

LayerSource generate_lrn(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Lrn>(query.layer().op);
  const Shape& x = input_shape(query, 0);
  const bool last = tactic.inputs[0].format == kChannelsLast || x.size() == 2;
  const Dim plane = product(x, 2, x.size());
  const int v = last ? 1 : own_vector(query, tactic, plane);
  KernelBuilder b = start_kernel(query, tactic, "lrn", DType::Float32);
  begin_elements(b, query, tactic, v);
  const std::string in = b.input(0, tactic.inputs[0].dtype), step = last ? "1" : b.number(plane),
                    each = "#pragma unroll\nfor (int j = 0; j < " + std::to_string(v) + "; ++j) ";
  const int64_t before = (op.size - 1) / 2, after = op.size - 1 - before;
  b.line("float x[" + std::to_string(v) + "];\nconst idx first = max(c1 - " + std::to_string(before) +
         ", (idx)0), last = min(c1 + " + std::to_string(after) + ", (idx)" + b.number(x[1]) +
         " - 1);\nfor (idx c = first; c <= last; ++c) {\nload(" + in + " + at + (c - c1) * " + step +
         ", x);\n" + each + "v[j] += x[j] * x[j];\n}\nload(" + in + " + at, x);\n" + each +
         "v[j] = x[j] / powf(" + float_literal(static_cast<double>(op.alpha) / static_cast<double>(op.size)) +
         " * v[j] + " + float_literal(op.bias) + ", " + float_literal(op.beta) + ");");
  return {{end_elements(b, v)}};
}

}  // namespace

GeneratedFamily lrn_family() {
  return {kLrnRunner, list_lrn, generate_lrn};
}

}  // namespace lathe::cuda
