// SPDX-License-Identifier: Apache-2.0
//
// A tile of a matrix product, finished in registers: product, bias, operand, activation and conversion in one
// call. One table per element type and instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/vector/register_tail.h"
#include "backend/cpu/vector/stored.h"

namespace lathe::cpu {

struct MatMulTile {
  int64_t rows = 0, columns = 0;  // at most the table's
  // Steps along k: one element of FP32, two of BF16. Rows of a and panels of b count in such 4-byte units.
  int64_t steps = 0;
  const void* a = nullptr;
  int64_t a_stride = 0;
  const std::byte* b = nullptr;  // packed: [step][panel], where a panel of up to 16 columns has 16
  const float* bias = nullptr;   // a whole panel, or null
  // Sums of the steps before, [rows][32], in place of the bias; or null.
  const float* sums = nullptr;
  const void* operand = nullptr;  // null: none. Of the result's type, as are the strides in elements
  int64_t operand_stride = 0;
  void* out = nullptr;
  int64_t out_stride = 0;
  Stored stored = Stored::F32;  // the result: F32 or BF16
  RegisterTail tail;
  // Brought into L2 on the way, `ahead_bytes` per step: a share of the panel that comes next.
  const std::byte* ahead = nullptr;
  int64_t ahead_bytes = 0;
  // And where later tiles write, or null; and read their operand, or null.
  const std::byte *out_ahead = nullptr, *operand_ahead = nullptr;
  int64_t out_ahead_bytes = 0;
};

struct MatMulTileTable {
  int64_t tile_rows, panel;
  void (*run)(const MatMulTile& tile);
};

const MatMulTileTable& tile_matmul_table_f32_avx512();
const MatMulTileTable& tile_matmul_table_bf16_avx512();

}  // namespace lathe::cpu
