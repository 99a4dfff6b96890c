// SPDX-License-Identifier: Apache-2.0
//
// How much of what a network reads once an inference, its weights above all, the last-level cache still has
// when the next inference comes: measured, for it is no matter of sizes alone. Others share that cache, and
// what is read again after some milliseconds has left it. (Two cores of eight that share 32 MB, a virtual
// machine with Zen 4: 8 MB come back at 91 GB/s at once, at 66 after 1 ms, 43 after 2 and 36 after 10; from
// memory at 34. Emerald Rapids, two of many that share 260 MB: 30 GB/s up to 48 MB, 20 at 96, and 10, as from
// memory, from 128 on.)
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "backend/cpu/kernel.h"
#include "base/thread_pool.h"

namespace lathe::cpu {

// Safe to use from several threads.
class CacheResidency {
 public:
  explicit CacheResidency(std::shared_ptr<ThreadPool> pool) : pool_(std::move(pool)) {}

  // For the layer's network with its weights in `stored`, at the tuning shapes: from 0, all comes from
  // memory, to 1. Measured when it is first asked for, which takes up to a fifth of a second.
  double kept_share(const LayerQuery& query, DType stored, const Machine& machine);

 private:
  // A network is known by its weights and shapes.
  using Network = std::tuple<int64_t, SymbolValues, DType, int>;

  std::shared_ptr<ThreadPool> pool_;
  std::mutex mutex_;
  std::map<Network, double> known_;
};

// Reads `bytes` once in each of some periods, a piece at a time with other work between as a network does,
// and compares with reading from the cache and from memory: 0, as from memory, to 1.
double measure_kept_share(ThreadPool& pool, const Machine& machine, int64_t bytes, double period_ms);

}  // namespace lathe::cpu
