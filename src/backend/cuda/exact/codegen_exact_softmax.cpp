// SPDX-License-Identifier: Apache-2.0
//
// Softmax of float64, in double: a line is read three times, from the L2 where it is long.
#include "backend/cuda/codegen/own_tactic.h"
#include "lathe_device_text/exact_softmax.h"
#include "lathe_device_text/wide_lanes.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kExactSoftmaxRunner = "ExactSoftmax";

std::vector<Tactic> list_exact_softmax(const LayerQuery& query, const Device&) {
  const DType type = layer_types(query)[0];
  if (!std::holds_alternative<Softmax>(query.layer().op) || type != DType::Float64) return {};
  return {typed_tactic(query, kExactSoftmaxRunner, "cuda_softmax_exact", {type, kLinear}, {type, kLinear})};
}

LayerSource generate_exact_softmax(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Softmax>(query.layer().op);
  const Shape& x = input_shape(query, 0);
  Dim length = 1, inner = 1;
  if (!x.empty()) {
    const auto axis = static_cast<size_t>(normalize_axis(op.axis, static_cast<int64_t>(x.size()), "axis"));
    length = x[axis];
    inner = product(x, axis + 1, x.size());
  }
  const Dim lines = floor_div(element_count(x), max(length, Dim(1)));
  KernelBuilder b = start_kernel(query, tactic, "softmax_exact", DType::Float64);
  b.set_fast_math(false);
  Tail(query, tactic).emit(b, 1);
  b.constants({{"LOG", op.log}});
  b.global(device_text::wide_lanes::kWideLanes);
  b.kernel().threads = 128;
  b.kernel().grid[0] = ceil_div(lines, Dim(4));
  b.line("#define FROM " + b.input(0, DType::Float64) + "\nconst idx LENGTH = " + b.number(length) +
         ", INNER = " + b.number(inner) + ", LINES = " + b.number(lines) + ";");
  b.line(device_text::exact_softmax::kSoftmax);
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily exact_softmax_family() {
  return {kExactSoftmaxRunner, list_exact_softmax, generate_exact_softmax};
}

}  // namespace lathe::cuda
