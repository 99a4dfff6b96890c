// SPDX-License-Identifier: Apache-2.0
//
// Sums of pixels: weighted ones of pixels that lie anywhere, the loops of RoiAlign, GridSample and
// DeformConv, and those of blocks that overlap, of Col2Im and transposed convolutions. One table per
// instruction set.
#pragma once

#include <cstdint>

#include "backend/cpu/vector/stored.h"

namespace lathe::cpu {

// For each place, tap after tap: an element, and its weight. Both lie [tap][place], rows `stride` apart.
struct PlaceTaps {
  int64_t taps = 0, stride = 0;
  const int32_t* index = nullptr;
  const float* weights = nullptr;
};

struct Corners {
  int32_t* index;  // [corner][place], rows `stride` apart
  float* weights;
  int64_t stride;
};

// Elements of a tap in a row of blocks, and where they are added.
struct TapRun {
  int64_t from = 0, to = 0, count = 0;
};

struct SampleTable {
  // y[j] = the sum over taps of weights[k] * x[offsets[k] + j], j < n; with `add`: y[j] and that.
  void (*pixels)(const void* x, Stored type, const int64_t* offsets, const float* weights, int64_t taps,
                 bool add, float* y, int64_t n);
  // y[i] = the sum over taps of weights[k][i] * x[index[k][i]], i < n. What has weight 0 does not count, NaN
  // included.
  void (*places)(const void* x, Stored type, const PlaceTaps& taps, float* y, int64_t n);
  // The four pixels around each place (ys[i], xs[i]) of an image, with weight 0 where they are outside; times
  // factors[i], if given.
  void (*corners)(const double* ys, const double* xs, const float* factors, int64_t n, int64_t height,
                  int64_t width, const Corners& out);
  // For each tap k and i < runs[k].count: sum[runs[k].to + i] += x[first + k * tap_stride + runs[k].from +
  // i].
  void (*add_runs)(const void* x, Stored type, int64_t first, int64_t tap_stride, const TapRun* runs,
                   int64_t taps, float* sum);
};

const SampleTable& sample_table_avx2();
const SampleTable& sample_table_avx512();

}  // namespace lathe::cpu
