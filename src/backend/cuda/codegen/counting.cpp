// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/codegen/counting.h"

#include "backend/cuda/codegen/codegen_tail.h"
#include "lathe_device_text/counting.h"

namespace lathe::cuda {

void add_counting(KernelBuilder& b) {
  b.hardware(device_text::counting::kHardware);
  b.global(device_text::counting::kPrefix);
}

void add_order_keys(KernelBuilder& b) {
  b.global(device_text::counting::kKeys);
}

int key_bits(DType dtype) {
  return 8 * dtype_size(dtype);
}

std::string key_type(int bits) {
  return bits > 32 ? "u64" : "u32";
}

std::string order_key(const std::string& element, int bits, bool descending) {
  const std::string key = "ascending_key(" + element + ")";
  if (!descending) return key;
  if (bits >= 32) return "(~" + key + ")";
  return "(~" + key + " & " + std::to_string((1u << bits) - 1) + "u)";
}

Dim aligned_bytes(const Dim& bytes) {
  return max(ceil_div(bytes, Dim(16)), Dim(1)) * Dim(16);
}

}  // namespace lathe::cuda
