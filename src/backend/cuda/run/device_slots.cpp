// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/run/device_slots.h"

namespace lathe::cuda {

std::byte* DeviceSlots::enlarge(size_t slot, size_t bytes) {
  DeviceMemory& old = buffers_[slot];
  DeviceMemory larger(device_, bytes);
  if (old.bytes() > 0) {
    const Driver& driver = *device_.driver;
    driver.require(driver.cuMemcpyDtoDAsync(larger.address(), old.address(), old.bytes(), stream_),
                   "moving a value that grows");
    driver.require(driver.cuStreamSynchronize(stream_), "moving a value that grows");
  }
  old = std::move(larger);
  return static_cast<std::byte*>(old.data());
}

}  // namespace lathe::cuda
