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

inline constexpr int64_t kLinesTogether = 256;

struct ReduceTable {
  // The fold of n contiguous elements.
  float (*row)(const void* x, Stored stored, int64_t n, Fold fold);
  // The same of `count` such rows, one behind the other.
  void (*rows)(const void* x, Stored stored, int64_t n, int64_t count, Fold fold, float* out);
  // Of n contiguous elements: the sum of exp(x - top), and the product.
  float (*sum_exp)(const void* x, Stored stored, int64_t n, float top);
  double (*product)(const void* x, Stored stored, int64_t n);
  // Where n contiguous elements have `value` (NaN: where they are NaN), the first or the last one; n: they
  // have it nowhere.
  int64_t (*find)(const float* x, int64_t n, float value, bool last);
  // Of each of `lines` (at most kLinesTogether) neighbouring lines of n < 2^31 elements, `stride` apart:
  // which is the greatest or smallest, the first or the last one of equals. NaN is both, as in numpy.
  void (*extremes)(const float* x, int64_t n, int64_t stride, int64_t lines, bool greatest, bool last,
                   int32_t* out);
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
