// SPDX-License-Identifier: Apache-2.0
//
// Right operands as the tile kernels (kernels/tile_matmul_table.h) read them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/tile_matmul_table.h"
#include "backend/cpu/own_tactic.h"
#include "base/floats.h"
#include "ir/dtype.h"

namespace lathe::cpu {

inline const MatMulTileTable& tile_matmul_table(DType type) {
  return type == DType::Float32 ? tile_matmul_table_f32_avx512() : tile_matmul_table_bf16_avx512();
}

// [panel][step][columns of the panel], where a step is one FP32 or two BF16; the last panel has 16 or 32 columns.
// `at(k, n)` gives the weights.
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

}  // namespace lathe::cpu
