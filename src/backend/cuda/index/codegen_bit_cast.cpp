// SPDX-License-Identifier: Apache-2.0
//
// BitCast: the same bytes under another type, copied as whole numbers of their size. Of what becomes a bool,
// every byte but 0 is 1, as bools lie in memory.
#include "backend/cuda/codegen/element_kernel.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kBitCastRunner = "BitCast";

DType carrier(int bytes) {
  return bytes == 1 ? DType::UInt8 : bytes == 2 ? DType::UInt16 : bytes == 4 ? DType::UInt32 : DType::Int64;
}

std::vector<Tactic> list_bit_cast(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<BitCast>(query.layer().op)) return {};
  Tactic t = linear_tactic(query, kBitCastRunner, "cuda_bit_cast");
  const int bits = dtype_info(t.outputs[0].dtype).bits;
  if (bits < 8 || bits > 64) t.support = Support::no("elements of " + std::to_string(bits) + " bits");
  if (!query.layer().epilogue.empty()) t.support = Support::no("a copy of bytes applies no epilogue");
  return {t};
}

LayerSource generate_bit_cast(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const DType type = tactic.outputs[0].dtype, stored = carrier(dtype_size(type));
  const Dim total = element_count(output_shape(query));
  const int v = vector_width(full_vector(stored), {total});
  const std::string vs = std::to_string(v);
  KernelBuilder b = start_kernel(query, Tactic(), "bit_cast", stored);
  b.kernel().grid[0] = ceil_div(total, Dim(256 * v));
  b.line("const idx at = ((idx)blockIdx.x * 256 + threadIdx.x) * " + vs + ";\nif (at >= " + b.number(total) +
         ") return;\nlong long v[" + vs + "];\nload(" + b.input(0, stored) + " + at, v);");
  if (type == DType::Bool) b.line("for (int j = 0; j < " + vs + "; ++j) v[j] = v[j] != 0;");
  b.line("store(" + b.output(0, stored) + " + at, v);");
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily bit_cast_family() {
  return {kBitCastRunner, list_bit_cast, generate_bit_cast};
}

}  // namespace lathe::cuda
