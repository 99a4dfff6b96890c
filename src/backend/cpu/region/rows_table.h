// SPDX-License-Identifier: Apache-2.0
//
// Kernels over rows of FP32 elements: layer norm, softmax, rotary embedding. One table per instruction set.
#pragma once

#include <cstdint>

namespace lathe::cpu {

struct LayerNormRow {
  const float* scale = nullptr;  // null: 1
  const float* bias = nullptr;   // null: 0
  float epsilon = 0;
  bool rms = false;
};

struct RowsTable {
  // y may be x.
  void (*layer_norm)(const float* x, float* y, int64_t n, const LayerNormRow& p);
  void (*layer_norm_bf16)(const float* x, uint16_t* y, int64_t n, const LayerNormRow& p);
  // One group of GroupNorm: `channels` planes, each with its scale and bias. y may be x.
  void (*group_norm)(const float* x, float* y, int64_t channels, int64_t plane, const float* scale,
                     const float* bias, float epsilon);
  void (*softmax)(const float* x, float* y, int64_t n, bool log);
  // Softmax over `n` elements that lie `stride` apart, for `count` neighbouring columns at once.
  void (*softmax_columns)(const float* x, float* y, int64_t n, int64_t stride, int64_t count, bool log);
  // y = x cos + turned sin over `n` elements (even), see Rotary. y may be x.
  void (*turn_halves)(const float* x, const float* cosines, const float* sines, float* y, int64_t n);
  void (*turn_neighbours)(const float* x, const float* cosines, const float* sines, float* y, int64_t n);
};

const RowsTable& rows_table_avx2();
const RowsTable& rows_table_avx512();
const RowsTable& rows_table_avx512_bf16();

}  // namespace lathe::cpu
