// SPDX-License-Identifier: Apache-2.0
//
// The transforms of Winograd's F(4x4, 3x3) on vectors of channels, one table per instruction set.
#pragma once

#include <cstdint>

#include "backend/cpu/vector/register_tail.h"
#include "backend/cpu/vector/stored.h"

namespace lathe::cpu {

inline constexpr int kWinogradOut = 4, kWinogradIn = 6, kWinogradPoints = 36;

// One tile of the input: 6 x 6 pixels of which rows [row_begin, row_end) and columns likewise lie inside the
// data.
struct WinogradInput {
  const void* pixels = nullptr;  // channel 0 of the tile's pixel (0, 0), which may lie outside
  Stored stored = Stored::F32;   // or BF16
  int64_t pixel_stride = 0, row_stride = 0, vector_stride = 0;  // vector: to the next 16 channels
  int row_begin = 0, row_end = 6, column_begin = 0, column_end = 6;
  int64_t vectors = 0;   // of channels
  float* out = nullptr;  // of the tile: channels contiguous; points lie point_stride apart
  int64_t point_stride = 0;
};

// One tile of the result: at most 4 x 4 pixels.
struct WinogradOutput {
  const float* points = nullptr;  // of the tile
  int64_t point_stride = 0;
  const float* bias = nullptr;
  const void* operand = nullptr;  // like `pixels`; null: none
  void* pixels = nullptr;
  Stored stored = Stored::F32;  // or BF16
  int64_t pixel_stride = 0, row_stride = 0, vector_stride = 0;
  int rows = 4, columns = 4;
  int64_t vectors = 0;
  RegisterTail tail;
};

struct WinogradTable {
  int64_t vector;
  void (*transform_input)(const WinogradInput& tile);
  void (*transform_output)(const WinogradOutput& tile);
};

const WinogradTable& winograd_table_avx512();

}  // namespace lathe::cpu
