// SPDX-License-Identifier: Apache-2.0
#include "memory_use.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace lathe::cli {
namespace {

// Resident memory of the process.
int64_t host_mib() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE) >> 20;
}

}  // namespace

MemoryUse::MemoryUse(Log& log) : log_(log), host_mib_(host_mib()) {}

int64_t MemoryUse::device_mib() const {
  if (backend_ == nullptr) return 0;
  const auto memory = backend_->device_memory();
  return (memory.total_bytes - memory.free_bytes) >> 20;
}

void MemoryUse::step(std::string_view name) {
  const int64_t host = host_mib(), device = device_mib();
  log_.library(Severity::Info,
               fmt::format("[MemUsageChange] {}: CPU {:+}, GPU {:+}, now: CPU {}, GPU {} (MiB)", name,
                           host - host_mib_, device - device_mib_, host, device));
  host_mib_ = host;
  device_mib_ = device;
}

void MemoryUse::report_peak() const {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  log_.library(
      Severity::Info,
      fmt::format("[MemUsageStats] Peak memory usage of TRT CPU/GPU memory allocators: CPU {} MiB, GPU "
                  "{} MiB",
                  usage.ru_maxrss / 1024, device_mib()));  // ru_maxrss is in KiB
}

}  // namespace lathe::cli
