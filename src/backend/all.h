// SPDX-License-Identifier: Apache-2.0
//
// The backends that this build contains. all.cpp is the one file that knows them.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/thread_pool.h"
#include "lathe/allocator.h"

namespace lathe {

struct DeviceOptions {
  std::string device = "cpu";  // "cpu", the number of a GPU, or "auto": GPU 0 when there is one, else the CPU
  std::string cpu_isa;         // cap: "avx2", "avx512", "avx512_bf16", "amx"; empty: what the CPU has
  int threads = 0;             // 0: usable_cpu_count()
  bool tf32 = true;            // FP32 layers on a GPU may round their operands to TF32
  std::shared_ptr<ThreadPool> pool;          // null: one is made with `threads` members
  std::shared_ptr<v1::Allocator> allocator;  // of the device's memory; null: the system
};

// Throws Input when the device is unknown or absent, naming what there is: never a silent fallback. With
// "auto" the target of the backend says what was taken.
std::shared_ptr<const Backend> open_backend(const DeviceOptions& options = {});

}  // namespace lathe
