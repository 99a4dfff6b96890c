// SPDX-License-Identifier: Apache-2.0
//
// What pooling in linear format does with rows of pixels. One table per instruction set.
#pragma once

#include <cstdint>

namespace lathe::cpu {

enum class RowFold : uint8_t { Max, Sum, Magnitudes, Squares };

struct RowPoolTable {
  // y[i] becomes the larger of y[i] and x[i * step], the sum of both, or the sum of y[i] and the magnitude or
  // the square of x[i * step]; i < n. NaN is larger than all else.
  void (*fold)(RowFold fold, const float* x, int64_t step, int64_t n, float* y);
  // The same of `start` and x[t][i] for all taps t.
  void (*fold_taps)(RowFold fold, float start, const float* const* x, int64_t taps, int64_t n, float* y);
  // As Max, and where an element of x is the larger, or index[i] is negative, index[i] becomes
  // first + i * step.
  void (*max_index)(const float* x, int64_t step, int64_t n, int32_t first, float* y, int32_t* index);
  // y[i] = y[i] / divisors[i].
  void (*divide)(const float* divisors, int64_t n, float* y);
  void (*square_roots)(int64_t n, float* y);
};

const RowPoolTable& row_pool_table_avx2();
const RowPoolTable& row_pool_table_avx512();

}  // namespace lathe::cpu
