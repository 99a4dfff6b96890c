// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolution of one output row of one vector of channels, one table per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/register_tail.h"
#include "backend/cpu/kernels/stored.h"

namespace lathe::cpu {

struct DepthwiseRow {
  // Input rows that the window's rows fall on, from the first row inside the data on.
  const void* in = nullptr;  // first channel of column 0 of the first such row
  Stored stored = Stored::F32;
  const int64_t* row_offsets = nullptr;  // of each window row from `in`, in elements
  int64_t pixel_stride = 0;              // between columns
  int64_t in_width = 0;
  int64_t rows = 0;                // window rows inside the data
  const float* weights = nullptr;  // [row][col][vector], from the first row inside the data on
  const float* bias = nullptr;     // one vector
  int64_t cols = 0, stride = 1, dilation = 1, pad = 0;  // of the window, horizontally
  int64_t inside_begin = 0, inside_end = 0;             // output columns whose windows lie inside the data
  void* out = nullptr;
  Stored out_stored = Stored::F32;  // or BF16
  int64_t out_stride = 0, out_width = 0;
  int64_t channels = 0;  // in this vector: lanes beyond are neither read nor written
  RegisterTail tail;
};

struct DepthwiseTable {
  int64_t vector;  // channels per vector
  void (*row)(const DepthwiseRow& p);
};

const DepthwiseTable& depthwise_table_avx2();
const DepthwiseTable& depthwise_table_avx512();
const DepthwiseTable& depthwise_table_avx512_bf16();

}  // namespace lathe::cpu
