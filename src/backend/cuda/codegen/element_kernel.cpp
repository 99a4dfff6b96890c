// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/codegen/element_kernel.h"

#include "base/error.h"

namespace lathe::cuda {

size_t axis_of(int64_t axis, size_t rank) {
  return static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(rank), "axis"));
}

void begin_elements(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, int v) {
  Tail(query, tactic).emit(b, v);
  const Shape& y = output_shape(query);
  const std::string vs = std::to_string(v);
  const Dim total = element_count(y);
  b.kernel().grid[0] = ceil_div(total, Dim(256 * v));
  b.line("const idx at = ((idx)blockIdx.x * 256 + threadIdx.x) * " + vs + ";\nif (at >= " + b.number(total) +
         ") return;\nidx r = at;");
  const std::vector<size_t> order = storage_order(y.size(), tactic.outputs[0].format);
  for (size_t i = order.size(); i-- > 0;) {
    const std::string c = "c" + std::to_string(order[i]), e = b.number(y[order[i]]);
    b.line(i == 0 ? "const idx " + c + " = r;" : "const idx " + c + " = r % " + e + "; r /= " + e + ";");
  }
  b.line(std::string(compute_name(tactic.outputs[0].dtype)) + " v[" + vs +
         "];\n#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) v[j] = 0;");
}

KernelSource end_elements(KernelBuilder& b, int v) {
  b.line("finish" + std::to_string(v) + "(at, v);");
  return b.finish();
}

int own_vector(const LayerQuery& query, const Tactic& tactic, const Dim& last) {
  const int limit = std::min(full_vector(tactic.inputs[0].dtype), full_vector(tactic.outputs[0].dtype));
  return Tail(query, tactic).vector(vector_width(limit, {last}));
}

std::vector<Tactic> element_tactics(const LayerQuery& query, std::string_view runner,
                                    const std::string& name) {
  std::vector<Format> formats = {kLinear};
  if (output_shape(query).size() >= 3) formats.insert(formats.begin(), kChannelsLast);
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query))
    for (const Format& format : formats) {
      Tactic t = typed_tactic(query, runner, name, {type, format}, {type, format});
      if (const Support s = stored(t); !s.ok) t.support = s;
      tactics.push_back(std::move(t));
    }
  return tactics;
}

Support stored(const Tactic& t) {
  for (const TensorType& type : {t.inputs[0], t.outputs[0]})
    if (storage_name(type.dtype).empty())
      return Support::no("no kernel for " + std::string(dtype_name(type.dtype)));

  return {};
}

}  // namespace lathe::cuda
