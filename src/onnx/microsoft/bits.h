// SPDX-License-Identifier: Apache-2.0
//
// Weights of 2, 4 or 8 bits without a sign, packed into bytes with the lowest bits first.
#pragma once

#include "onnx/import_node.h"

namespace lathe::onnx {

// Of a node. More is damage, and its products would overflow.
constexpr int64_t kMostWeights = int64_t{1} << 40;

// The type of so many bits; other numbers than 2, 4 and 8 are refused, naming `attribute`.
DType type_of_bits(NodeImport& node, int64_t bits, std::string_view attribute);

// The first `count` elements of each of `rows` rows of bytes, as a tensor of `type` and `extents`. Rows begin
// at a byte; the caller has checked that there are as many bytes.
Tensor unpacked_bits(const Tensor& packed, DType type, int64_t rows, int64_t count, Extents extents);

// The zero point of weights without one: the middle of what `type` holds.
Tensor middle_of_bits(DType type, Extents extents);

}  // namespace lathe::onnx
