// SPDX-License-Identifier: Apache-2.0
//
// The backends that this build contains. all.cpp is the one file that knows them.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace lathe {

struct DeviceOptions {
  std::string device = "cpu";        // "cpu", or the number of a GPU
  std::string cpu_isa;               // cap: "avx2", "avx512", "avx512_bf16", "amx"; empty: what the CPU has
  int threads = 0;                   // 0: usable_cpu_count()
  std::shared_ptr<ThreadPool> pool;  // null: one is made with `threads` members
};

// Throws Input when the device is unknown or absent, naming what there is: never a silent fallback.
std::shared_ptr<const Backend> open_backend(const DeviceOptions& options = {});

}  // namespace lathe
