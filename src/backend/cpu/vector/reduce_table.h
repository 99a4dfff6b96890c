// SPDX-License-Identifier: Apache-2.0
//
// Kernels that fold many elements into one: reductions and pooling. One table per instruction set.
#pragma once

#include <cstdint>

#include "backend/cpu/vector/stored.h"

namespace lathe::cpu {

enum class Fold : uint8_t { Sum, Max, Min, SumAbs, SumSquare };

// A window of taps over an image whose channels are contiguous. Strides in elements.
struct WindowTaps {
  int64_t rows = 1, cols = 1;
  int64_t row_stride = 0, col_stride = 0;
};

struct ReduceTable {
  // The fold of n contiguous elements.
  float (*row)(const void* x, Stored stored, int64_t n, Fold fold);
  // The same of `count` such rows, one behind the other.
  void (*rows)(const void* x, Stored stored, int64_t n, int64_t count, Fold fold, float* out);
  // Of n contiguous elements: the sum of exp(x - top), and the product.
  float (*sum_exp)(const void* x, Stored stored, int64_t n, float top);
  double (*product)(const void* x, Stored stored, int64_t n);
  // out[i * channels + c] = scale * fold of the taps at x + i * step + c, for c < channels, i < count.
  void (*windows)(const void* x, Stored stored, const WindowTaps& taps, int64_t channels, int64_t count,
                  int64_t step, Fold fold, float scale, float* out);
  // The same for maxima of BF16, which need no other type.
  void (*max_windows_bf16)(const uint16_t* x, const WindowTaps& taps, int64_t channels, int64_t count,
                           int64_t step, uint16_t* out);
};

const ReduceTable& reduce_table_avx2();
const ReduceTable& reduce_table_avx512();

}  // namespace lathe::cpu
