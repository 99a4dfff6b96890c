// SPDX-License-Identifier: Apache-2.0
//
// What attention in BF16 needs beside its two matrix products (tile/tile_matmul_table.h).
#pragma once

#include <cstdint>

namespace lathe::cpu {

// A tile of scores that become weights.
struct ScoreTile {
  float* scores = nullptr;  // rows `stride` apart, `padded` long (a multiple of 32); overwritten
  int64_t stride = 0, rows = 0, keys = 0, padded = 0;
  float scale = 1;
  bool causal = false;
  int64_t first_query = 0;      // row r may see keys up to first_query + r
  const float* mask = nullptr;  // added: rows mask_stride apart (0: one for all), `keys` long
  int64_t mask_stride = 0;
  uint16_t* weights = nullptr;    // rows `padded` apart; not divided by their sum
  float* inverse_sums = nullptr;  // one per row; 0 where every key is forbidden
};

struct AttentionBf16Table {
  void (*weigh)(const ScoreTile& tile);
  // Rows 2 i and 2 i + 1 of `columns` values (at most 32) side by side: [i][32][2], zeros beyond.
  void (*pack_values)(const uint16_t* rows, int64_t stride, int64_t count, int64_t columns, uint16_t* out);
  // Rows of sums times their factor.
  void (*store)(const float* sums, int64_t stride, int64_t rows, int64_t columns, const float* factors,
                uint16_t* out, int64_t out_stride);
};

const AttentionBf16Table& attention_bf16_table();

}  // namespace lathe::cpu
