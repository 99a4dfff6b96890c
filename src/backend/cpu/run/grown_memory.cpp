// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/run/grown_memory.h"

#include <algorithm>
#include <cstring>

namespace lathe::cpu {

std::byte* GrownMemory::reserve(int slot, size_t bytes) {
  constexpr size_t kLeast = 4096;
  const auto at = static_cast<size_t>(slot);
  HostBuffer& old = buffers_[at];
  if (bytes <= old.bytes() && old.bytes() > 0) return addresses_[at];
  // What grows a little at each step of a loop is moved only now and then.
  const size_t spare = old.bytes() < bytes ? old.bytes() / 2 : 0;
  HostBuffer larger(std::max({kLeast, bytes, old.bytes() + spare}), "values whose size the run found");
  if (old.bytes() > 0) std::memcpy(larger.begin(), old.begin(), old.bytes());
  old = std::move(larger);
  return addresses_[at] = old.begin();
}

size_t GrownMemory::bytes() const {
  size_t sum = 0;
  for (const HostBuffer& buffer : buffers_) sum += buffer.bytes();
  return sum;
}

}  // namespace lathe::cpu
