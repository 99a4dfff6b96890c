// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/run/grown_memory.h"

#include <algorithm>

namespace lathe::cuda {

std::byte* GrownMemory::reserve(int slot, size_t bytes, CUstream stream) {
  constexpr size_t kLeast = 4096;
  const auto at = static_cast<size_t>(slot);
  DeviceMemory& old = buffers_[at];
  if (bytes <= old.bytes() && old.bytes() > 0) return addresses_[at];
  // What grows a little at each step of a loop is moved only now and then.
  const size_t spare = old.bytes() < bytes ? old.bytes() / 2 : 0;
  DeviceMemory larger(device_, std::max({kLeast, bytes, old.bytes() + spare}));
  if (old.bytes() > 0) {
    const Driver& driver = *device_.driver;
    driver.require(driver.cuMemcpyDtoDAsync(larger.address(), old.address(), old.bytes(), stream),
                   "moving a value that grows");
    driver.require(driver.cuStreamSynchronize(stream), "moving a value that grows");
  }
  old = std::move(larger);
  return addresses_[at] = static_cast<std::byte*>(old.data());
}

size_t GrownMemory::bytes() const {
  size_t sum = 0;
  for (const DeviceMemory& buffer : buffers_) sum += buffer.bytes();
  return sum;
}

}  // namespace lathe::cuda
