// SPDX-License-Identifier: Apache-2.0
//
// The lines that say what each step took of memory: "[MemUsageChange] Init CUDA: CPU +1, GPU +0, now: CPU 16,
// GPU 585 (MiB)".
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/backend.h"
#include "report/log.h"

namespace lathe::cli {

class MemoryUse {
 public:
  explicit MemoryUse(Log& log);

  // The device does not exist before it is opened; null: a backend on the host.
  void watch(const Backend* backend) { backend_ = backend; }
  // The change since the last step, and what is in use now.
  void step(std::string_view name);
  // The most that the process has had, and what the device has in use.
  void report_peak() const;

 private:
  int64_t device_mib() const;

  Log& log_;
  const Backend* backend_ = nullptr;
  int64_t host_mib_ = 0, device_mib_ = 0;
};

}  // namespace lathe::cli
