// SPDX-License-Identifier: Apache-2.0
#include "backend/all.h"

#include <algorithm>

#include "backend/cpu/cpu_backend.h"

namespace lathe {

std::shared_ptr<const Backend> open_backend(const DeviceOptions& options) {
  if (options.device != "cpu") {
    const bool number = !options.device.empty() && std::all_of(options.device.begin(), options.device.end(),
                                                               [](char c) { return c >= '0' && c <= '9'; });
    throw_input_error(number ? "device " + options.device +
                                   " is a GPU, and this build of Lathe has no CUDA backend; use --device=cpu"
                             : "unknown device '" + options.device + "'; this build of Lathe has: cpu");
  }
  auto pool = options.pool ? options.pool : std::make_shared<ThreadPool>(options.threads);
  return cpu::create_cpu_backend({.threads = options.threads, .isa_cap = options.cpu_isa}, std::move(pool));
}

}  // namespace lathe
