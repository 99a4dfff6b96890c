// SPDX-License-Identifier: Apache-2.0
//
// What this machine can do at most, measured: the figures that times are held against.
#pragma once

#include <string>

#include "base/thread_pool.h"

namespace lathe::bench {

struct Ceilings {
  std::string isa;             // what the arithmetic was measured with
  double f32_gflops = 0;       // multiply-adds from registers, all threads together
  double bf16_gflops = 0;      // the dot-product instruction or AMX's tiles; 0: the CPU has neither
  double cache_copy_gbs = 0;   // read + written bytes, each thread within half its private cache
  double memory_copy_gbs = 0;  // the same, far beyond the last-level cache
  double memory_read_gbs = 0;  // bytes of memory that are read and not written: what weights come at
};

Ceilings measure_ceilings(ThreadPool& pool);

}  // namespace lathe::bench
