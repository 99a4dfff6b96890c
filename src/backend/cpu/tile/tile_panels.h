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
constexpr int kSplitLanes = 16;
struct Bf16Parts {
  uint16_t of[kBf16Parts][kSplitLanes];
};
inline Bf16Parts split_to_bf16(const float (&values)[kSplitLanes]) {
  constexpr float kLargest = 0x1.fep127f;
  Bf16Parts parts;
  float rest[kSplitLanes];
  for (int i = 0; i < kSplitLanes; ++i) {
    parts.of[0][i] = float_to_bf16(std::clamp(values[i], -kLargest, kLargest));
    rest[i] = values[i] - bf16_to_float(parts.of[0][i]);
  }
  for (int p = 1; p < kBf16Parts; ++p)
    for (int i = 0; i < kSplitLanes; ++i) {
      parts.of[p][i] = float_to_bf16(rest[i]);
      rest[i] -= bf16_to_float(parts.of[p][i]);
    }
  return parts;
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

// FP32 in BF16, by steps along k of so many elements, an even number that divides k: the three parts of a
// step follow one another. Some panels at a time: what lies side by side in a row of the weights is read
// together.
template <class At>
void pack_column_parts(std::byte* out, int64_t step, int64_t k, int64_t n, const At& at) {
  constexpr int64_t kPanels = 8;
  const int64_t width = tile_matmul_table(DType::BFloat16).panel;
  const int64_t panel_elements = kBf16Parts * k * width;
  // Two rows lie side by side, element by element; each part is a step of rows behind the one before.
  const auto pack_row = [&](int64_t row, int64_t first) {
    const int64_t columns = std::min(width, n - first), wide = columns <= width / 2 ? width / 2 : width;
    const int64_t even = row / 2 * 2;
    auto* const to = reinterpret_cast<uint16_t*>(out) + first / width * panel_elements +
                     (even / step * kBf16Parts * step + even % step) * wide + row % 2;
    for (int64_t c = 0; c < columns; c += kSplitLanes) {
      const int64_t count = std::min<int64_t>(kSplitLanes, columns - c);
      float values[kSplitLanes] = {};
      for (int64_t i = 0; i < count; ++i) values[i] = at(row, first + c + i);
      const Bf16Parts parts = split_to_bf16(values);
      for (int64_t p = 0; p < kBf16Parts; ++p)
        for (int64_t i = 0; i < count; ++i) to[p * step * wide + 2 * (c + i)] = parts.of[p][i];
    }
  };
  for (int64_t group = 0; group < n; group += kPanels * width)
    for (int64_t row = 0; row < k; ++row)
      for (int64_t first = group; first < std::min(n, group + kPanels * width); first += width)
        pack_row(row, first);
}

}  // namespace lathe::cpu
