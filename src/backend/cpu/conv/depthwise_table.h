// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolution of output rows of one vector of channels, one table per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/vector/register_tail.h"
#include "backend/cpu/vector/stored.h"

namespace lathe::cpu {

struct DepthwiseRows {
  // Rows of one vector of channels; all that follows is in elements. Rows may lie in a ring: beyond its end
  // they go on at its begin.
  const void* in = nullptr;             // first channel of column 0 of the first row that is stored
  Stored stored = Stored::F32;          // or BF16; a table of FP16: F16
  int64_t first = 0;                    // the row that the first window row inside the data falls on
  int64_t tap_row = 0, window_row = 0;  // from a window row, or a window, to the next one
  int64_t ring = INT64_MAX;
  int64_t pixel_stride = 0;  // between columns
  int64_t in_width = 0;
  int64_t rows = 0;               // window rows inside the data
  const void* weights = nullptr;  // FP32 or FP16, [row][col][vector], from the first row inside the data on
  const void* bias = nullptr;     // one vector
  const void* scale = nullptr;    // FP16: one vector, what sums are multiplied by
  int64_t cols = 0, stride = 1, dilation = 1, pad = 0;  // of the window, horizontally
  int64_t inside_begin = 0, inside_end = 0;             // output columns whose windows lie inside the data
  void* out = nullptr;
  Stored out_stored = Stored::F32;  // or BF16
  int64_t out_stride = 0, out_width = 0;
  int64_t out_rows = 1, out_row_stride = 0;
  int64_t channels = 0;  // in this vector: lanes beyond are neither read nor written
  RegisterTail tail;

  int64_t after(int64_t offset, int64_t step) const {
    return offset + step < ring ? offset + step : offset + step - ring;
  }
};

struct DepthwiseTable {
  int64_t vector;      // channels per vector
  int64_t lane_bytes;  // of weights, biases and sums
  void (*rows)(const DepthwiseRows& p);
  // `columns` columns of one vector of channels, of which `channels` are there, as FP32, one after the other.
  void (*gather)(const void* in, Stored stored, int64_t pixel_stride, int64_t columns, int64_t channels,
                 float* out);
};

const DepthwiseTable& depthwise_table_avx2();
const DepthwiseTable& depthwise_table_avx512();
const DepthwiseTable& depthwise_table_avx512_bf16();

}  // namespace lathe::cpu
