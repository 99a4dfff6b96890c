// SPDX-License-Identifier: Apache-2.0
//
// How the pixels that taps of a convolution read are packed for the product kernel (tile/gemm_table.h). One
// table per instruction set.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// Neighbouring columns of a panel that read pixels of one row: column `to` + i reads pixel `from` + i * step
// of a channel's plane.
struct PatchRun {
  int64_t from = 0;
  int32_t to = 0, count = 0;
};

// What one tap reads for a panel of output positions. Columns in no run read padding, which is 0.
struct PatchRuns {
  const PatchRun* runs = nullptr;
  int64_t count = 0;
  int64_t step = 1;
  bool covers = false;  // no column reads padding
};

// The filters of some groups, one for each, at positions of one row: at most as many as a panel has.
struct PatchSum {
  const float* x = nullptr;  // the first group's first plane
  int64_t plane = 0, channels = 1, taps = 1;
  const PatchRuns* found = nullptr;  // of each tap: one run at most
  const float* weights = nullptr;    // of each channel and tap
  int64_t weight_stride = 0;         // between groups
  int64_t groups = 1;
  const float* start = nullptr;  // of each group
  int64_t result_stride = 0;     // between groups
  int64_t columns = 0;
};
// Groups whose sums are in registers together; more would be done one by one.
inline constexpr int64_t kSumsTogether = 4;

struct PatchTable {
  // Writes a row of the panel for each of `channels` planes, which lie `plane` elements apart; rows of the
  // panel lie `stride` elements apart.
  void (*copy)(const float* x, int64_t plane, int64_t channels, const PatchRuns& runs, float* to,
               int64_t stride);
  // Writes the results of the groups at these positions: `start` and the sum over channels and taps of a
  // weight times what the tap reads.
  void (*sum)(const PatchSum& sum, float* y);
};

const PatchTable& patch_table_avx2();
const PatchTable& patch_table_avx512();

}  // namespace lathe::cpu
