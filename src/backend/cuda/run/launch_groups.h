// SPDX-License-Identifier: Apache-2.0
//
// Which layers of a run overlap. Layers in order need not wait for one another when none reads what another
// writes: q, k and v of one row, a gate and what it gates, copies of keys and of values. Launched one after
// the other, each would wait for the one in front to end, which takes longer than the work of a small one.
//
// What layers read and write are addresses, so memory that the plan gives to one value after another counts,
// too. The runs of such layers are groups; LaunchOrder says how their kernels keep the order of everything
// else.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/kernel.h"

namespace lathe::cuda {

struct MemoryRange {
  const void* address = nullptr;
  int64_t bytes = 0;
};

struct LayerUse {
  bool is_launched = false;  // no: a view, or a layer without elements
  LaunchOverlap overlap;
  std::vector<MemoryRange> reads;               // of each of the operator's inputs
  std::vector<MemoryRange> late_reads, writes;  // late: operands of the epilogue

  // As it begins, but keeps its memory.
  void clear() {
    is_launched = false;
    overlap = {};
    for (auto* ranges : {&reads, &late_reads, &writes}) ranges->clear();
  }
};

// One order for each layer.
std::vector<LaunchOrder> group_launches(const std::vector<LayerUse>& layers);

}  // namespace lathe::cuda
