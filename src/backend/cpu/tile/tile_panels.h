// SPDX-License-Identifier: Apache-2.0
//
// Right operands as the tile kernels (tile/tile_matmul_table.h) read them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/tile/tile_matmul_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "base/floats.h"
#include "ir/dtype.h"

namespace lathe::cpu {

constexpr int64_t kBf16Parts = 3;  // of FP32

inline const MatMulTileTable& tile_matmul_table(DType type) {
  return type == DType::Float32 ? tile_matmul_table_f32_avx512() : tile_matmul_table_bf16_avx512();
}

// FP32 as the sum of three BF16 (tile/amx_table.h, split_rows): the nearest one, and so on of what is left.
inline float bf16_part(float x, int64_t part) {
  constexpr float kLargest = 0x1.fep127f;
  float of_part = bf16_to_float(float_to_bf16(std::clamp(x, -kLargest, kLargest)));
  for (; part > 0; --part) {
    x -= of_part;
    of_part = bf16_to_float(float_to_bf16(x));
  }
  return of_part;
}

// [panel][step][columns of the panel], where a step is one FP32 or two BF16; the last panel has 16 or 32
// columns. `at(k, n)` gives the weights.
template <class At>
void pack_columns(std::byte* out, DType type, int64_t k, int64_t n, const At& at) {
  const int64_t width = tile_matmul_table(type).panel;
  for (int64_t first = 0; first < n; first += width) {
    const int64_t columns = std::min(width, n - first), wide = columns <= width / 2 ? width / 2 : width;
    if (type == DType::Float32) {
      auto* to = reinterpret_cast<float*>(out);
      for (int64_t i = 0; i < k; ++i, to += wide)
        for (int64_t c = 0; c < columns; ++c) to[c] = at(i, first + c);
    } else {
      auto* to = reinterpret_cast<uint16_t*>(out);
      for (int64_t i = 0; i < k; i += 2, to += 2 * wide)
        for (int64_t c = 0; c < columns; ++c) {
          to[2 * c] = float_to_bf16(at(i, first + c));
          to[2 * c + 1] = float_to_bf16(at(i + 1, first + c));
        }
    }
    out += dtype_bytes(type, k * wide);
  }
}

inline int64_t packed_bytes(DType type, bool in_parts, int64_t elements) {
  return in_parts ? kBf16Parts * dtype_bytes(DType::BFloat16, elements) : dtype_bytes(type, elements);
}

// FP32 in BF16, by steps along k of so many elements: the three parts of a step follow one another.
template <class At>
void pack_column_parts(std::byte* out, int64_t step, int64_t k, int64_t n, const At& at) {
  pack_columns(out, DType::BFloat16, kBf16Parts * k, n, [&](int64_t row, int64_t column) {
    const int64_t part = row / step % kBf16Parts;
    return bf16_part(at(row / (kBf16Parts * step) * step + row % step, column), part);
  });
}

}  // namespace lathe::cpu
