// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/exact/packed.h"

#include "lathe_device_text/packed.h"

namespace lathe::cuda {
namespace {

bool is_signed_integer(DType type) {
  return type == DType::Int4 || type == DType::Int2;
}

}  // namespace

bool is_packed(DType type) {
  return type != DType::Undefined && dtype_info(type).bits < 8;
}

int elements_per_byte(DType type) {
  return is_packed(type) ? 8 / dtype_info(type).bits : 1;
}

Support readable(DType type) {
  if (is_packed(type) || !storage_name(type).empty()) return {};
  return Support::no("no kernel for " + std::string(dtype_name(type)));
}

void add_packed(KernelBuilder& b) {
  b.uses(DType::Float4E2M1);
  b.global(device_text::packed::kPacked);
}

std::string elements_of(KernelBuilder& b, size_t input, DType type) {
  if (!is_packed(type)) return "whole_elements(" + b.input(input, type) + ")";
  const std::string bytes = b.input(input, DType::UInt8);
  if (is_float(type)) return "PackedFloats{" + bytes + "}";
  return "PackedIntegers<" + std::to_string(dtype_info(type).bits) + ", " +
         (is_signed_integer(type) ? "true" : "false") + ">{" + bytes + "}";
}

void begin_packed(KernelBuilder& b, DType type, const Dim& total) {
  const int each = elements_per_byte(type);
  b.kernel().grid[0] = ceil_div(total, Dim(256 * each));
  b.line("const idx total = " + b.number(total) + ", first = ((idx)blockIdx.x * 256 + threadIdx.x) * " +
         std::to_string(each) + ";\nif (first >= total) return;");
}

std::string store_elements(KernelBuilder& b, DType type, const std::string& number) {
  if (!is_packed(type))
    return "{\nconst idx i = first;\n" + b.output(0, type) + "[i] = Narrow<" +
           std::string(storage_name(type)) + ">::from(" + number + ");\n}";
  const std::string code =
      is_float(type) ? "narrow_e2m1(to_float(" + number + "))" : "to_integer(" + number + ")";
  return b.output(0, DType::UInt8) + "[first / " + std::to_string(elements_per_byte(type)) +
         "] = packed_byte<" + std::to_string(dtype_info(type).bits) + ">(first, total, [&](idx i) { return " +
         code + "; });";
}

}  // namespace lathe::cuda
