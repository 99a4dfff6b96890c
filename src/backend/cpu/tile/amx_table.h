// SPDX-License-Identifier: Apache-2.0
//
// Products of BF16 matrices in AMX tiles, finished on the way out: product, bias, operand, activation and
// conversion in one call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/vector/register_tail.h"
#include "backend/cpu/vector/stored.h"

namespace lathe::cpu {

// Rows come in groups of 16, each group at a fixed pitch; a step along k lies at the same distance from every
// row's begin. So rows may be pixels and steps the taps of a window. Every row of a group is read, whether it
// counts or not.
struct AmxProduct {
  static constexpr int64_t kGroup = 16, kPanel = 32, kTileBytes = kGroup * 64;

  const std::byte* const* groups = nullptr;  // where each begins
  int64_t group_count = 0;
  int64_t row_bytes = 0;
  int64_t group_bytes = 0;           // when rows of a group lie together and come from afar: fetched ahead
  const int32_t* step_at = nullptr;  // bytes from a row's begin; null: step_bytes from one to the next
  int64_t step_bytes = 0;
  int64_t steps = 0, step = 0;  // of so many elements, as begin() was told
  // FP32 operands as sums of three BF16 parts (split_rows()): those of a lie so far apart, those of b follow
  // one another in each step. Of the nine products the six that FP32 can hold are added up. 0: one part.
  int64_t part_bytes = 0;
  const std::byte* b = nullptr;  // packed by pack_columns(): panels of 32 columns, the last of 16 or 32
  int64_t panel_bytes = 0;       // from one of 32 columns to the next
  int64_t columns = 0;
  const float* bias = nullptr;  // whole panels, or null
  bool rows_first = false;  // all panels pass over 32 rows before the next rows come, or the other way round

  int64_t rows = 0;  // that count, from the first on
  const int32_t* row_at =
      nullptr;  // the row of the result for each row of the groups, -1: not wanted; null: the same
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t out_panel = kPanel;     // from a panel's results to the next one's, in elements
  const void* operand = nullptr;  // null: none. Of the result's type
  int64_t operand_stride = 0;
  Stored stored = Stored::F32;  // the result: F32 or BF16
  RegisterTail tail;
  // Instead of operand, tail and stored, for products of one panel: called with sums of `count` rows,
  // [row][32], of which the first `columns` (16 or 32) count, and the row of the result that they begin at.
  using FinishRows = void (*)(const AmxProduct& product, const float* sums, int64_t row, int64_t count,
                              int64_t columns);
  FinishRows finish_rows = nullptr;
  void* finish_state = nullptr;  // for finish_rows
  // 16 rows at a time instead of 32, in two sets of sums in turn: while one leaves the tiles, the other is
  // worked on. For few steps, where 32 rows would wait longer than they multiply.
  bool by_groups = false;
  bool near = false;  // what is written lies in L1 or L2 already
  // Sums as they are, straight from the tiles: FP32 without bias, operand and tail, and `out` has room for
  // whole tiles.
  bool plain = false;
  // Instead of all of k at once, this many steps at a time for all rows, and room for the rows' sums
  // meanwhile (32 FP32 each): a panel's steps stay in L1. Null: all at once.
  float* partial = nullptr;
  int64_t chunk_steps = 0;
  // Instead of all of k in one call, steps from first_step to before end_step (0: steps), where `groups`
  // begin; sums wait in `partial`, panel after panel.
  int64_t first_step = 0, end_step = 0;
  int64_t partial_panel = 0;  // FP32 from a panel's sums to the next one's
};

struct AmxTable {
  // Sets the tiles of the calling thread up for products whose steps have so many elements (even, at most
  // 32).
  void (*begin)(int64_t step);
  void (*run)(const AmxProduct& product);
  void (*end)();
  // `count` rows of `bytes` bytes each, to another pitch, followed by zeros up to `padded`.
  void (*copy_rows)(const std::byte* from, int64_t from_pitch, int64_t bytes, int64_t count, std::byte* to,
                    int64_t pitch, int64_t padded);
  // `count` rows of `elements` FP32 each as three BF16 parts whose sum they are, each followed by zeros up to
  // `padded` elements. Finite values stay finite; of infinite ones products may become NaN.
  void (*split_rows)(const std::byte* from, int64_t from_pitch, int64_t elements, int64_t count,
                     std::byte* to, int64_t pitch, int64_t part_bytes, int64_t padded);
  // Up to four planes of FP32 as pixels of four BF16; planes that are not there are zero.
  void (*interleave)(const float* const* planes, int64_t count, int64_t pixels, std::byte* to);
};

const AmxTable& amx_table();

// The longest step that divides k, or 0 where that would leave most of a tile empty.
constexpr int64_t amx_step(int64_t k) {
  for (int64_t step = 32; step >= 2; step -= 2)
    if (k % step == 0) return step >= 16 || step == k ? step : 0;
  return 0;
}

}  // namespace lathe::cpu
