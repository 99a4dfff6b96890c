// SPDX-License-Identifier: Apache-2.0
#include "onnx/microsoft/bits.h"

#include <cstring>

namespace lathe::onnx {

DType type_of_bits(NodeImport& node, int64_t bits, std::string_view attribute) {
  if (bits == 2) return DType::UInt2;
  if (bits == 4) return DType::UInt4;
  if (bits == 8) return DType::UInt8;
  node.fail("attribute '" + std::string(attribute) + "' is " + std::to_string(bits) + ", expected 2, 4 or 8");
}

// Rows of whole bytes lie as a tensor of the type has them; others are written anew.
Tensor unpacked_bits(const Tensor& packed, DType type, int64_t rows, int64_t count, Extents extents) {
  const auto bytes = packed.data<uint8_t>();
  const int64_t bits = dtype_info(type).bits, per_byte = 8 / bits;
  const int64_t row_bytes = static_cast<int64_t>(bytes.size()) / rows;
  Tensor result = Tensor::allocate(type, std::move(extents));
  const auto out = result.mutable_bytes();
  for (int64_t r = 0; r < rows; ++r) {
    const uint8_t* const row = bytes.data() + r * row_bytes;
    if (count % per_byte == 0) {
      std::memcpy(out.data() + r * (count / per_byte), row, static_cast<size_t>(count / per_byte));
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      const int value = (row[i / per_byte] >> (i % per_byte * bits)) & ((1 << bits) - 1);
      const int64_t at = r * count + i;
      out[static_cast<size_t>(at / per_byte)] |= static_cast<std::byte>(value << (at % per_byte * bits));
    }
  }
  return result;
}

Tensor middle_of_bits(DType type, Extents extents) {
  const int bits = dtype_info(type).bits;
  int byte = 0;
  for (int at = 0; at < 8; at += bits) byte |= 1 << (at + bits - 1);
  Tensor result = Tensor::allocate(type, std::move(extents));
  for (std::byte& b : result.mutable_bytes()) b = static_cast<std::byte>(byte);
  return result;
}

}  // namespace lathe::onnx
