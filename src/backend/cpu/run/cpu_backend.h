// SPDX-License-Identifier: Apache-2.0
//
// The CPU backend. Bindings are host memory, streams are empty, one pool of threads runs everything.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/thread_pool.h"
#include "lathe/allocator.h"

namespace lathe::cpu {

struct CpuOptions {
  // At most that many members of the pool work on one run; 0: the whole pool.
  int threads = 0;
  // --cpuIsa: "avx2", "avx512", "avx512_bf16" or "amx"; empty: all that the CPU has. oneDNN takes one cap per
  // process, so a second backend with another cap is an Input error.
  std::string isa_cap;
  // Of buffers, packed weights, activations, scratch and what is timed; null: the system.
  std::shared_ptr<v1::Allocator> allocator;
};

// Throws Input when the CPU has no AVX2 or the options are wrong.
std::unique_ptr<Backend> create_cpu_backend(const CpuOptions& options, std::shared_ptr<ThreadPool> pool);

}  // namespace lathe::cpu
