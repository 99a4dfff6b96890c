// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/run/host_slots.h"

#include <cstring>

namespace lathe::cpu {

std::byte* HostSlots::enlarge(size_t slot, size_t bytes) {
  HostBuffer& old = buffers_[slot];
  HostBuffer larger(bytes, "values whose size the run found", allocator_);
  if (old.bytes() > 0) std::memcpy(larger.begin(), old.begin(), old.bytes());
  old = std::move(larger);
  return old.begin();
}

}  // namespace lathe::cpu
