// SPDX-License-Identifier: Apache-2.0
//
// Attention of one head, one table per instruction set. Everything is FP32; the caller converts, but for the
// keys and values of few queries.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// One head: queries in rows, keys and values packed by the functions below.
struct AttentionHead {
  const float* q = nullptr;  // rows q_stride apart
  int64_t q_stride = 0;
  const float* keys = nullptr;    // packed
  const float* values = nullptr;  // packed
  int64_t key_count = 0, width = 0, value_width = 0;
  float scale = 1;
  bool causal = false;
  // What is added to the scores: null, or rows mask_stride apart (0: the same for all queries), key_count
  // long.
  const float* mask = nullptr;
  int64_t mask_stride = 0;
};

// Up to four rows of queries against the keys and values of one head as they lie in memory.
struct FewQueries {
  enum class Stored : uint8_t { Float32, BFloat16, Float16 };
  static constexpr int64_t kMost = 4;
  int64_t rows = 0;
  const float* q[kMost] = {};
  float* out[kMost] = {};
  const float* mask[kMost] = {};    // added to the scores: null, or key_count long
  int64_t seen[kMost] = {};         // keys that the row sees
  Stored stored = Stored::Float32;  // of keys and values
  const void* keys = nullptr;       // rows key_stride elements apart
  const void* values = nullptr;
  int64_t key_stride = 0, value_stride = 0, key_count = 0, width = 0, value_width = 0;
  float scale = 1;
  float* scores = nullptr;  // kMost rows of key_count, rounded up to `panel`
};

struct AttentionTable {
  int64_t tile_rows;  // queries taken together
  int64_t panel;      // keys and value columns come in multiples of it
  int64_t block;      // keys per step of the online softmax
  // Floats of work memory for queries(): scores, results and factors of a tile.
  int64_t (*work_floats)(int64_t value_width);
  // `rows` (<= tile_rows) queries, the first of which is query number `first`; results to out, rows
  // out_stride apart.
  void (*queries)(const AttentionHead& head, int64_t first, int64_t rows, float* work, float* out,
                  int64_t out_stride);
  void (*few)(const FewQueries& f);
};

const AttentionTable& attention_table_avx2();
const AttentionTable& attention_table_avx512();

}  // namespace lathe::cpu
