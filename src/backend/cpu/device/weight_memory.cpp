// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/device/weight_memory.h"

#include <cstring>

namespace lathe::cpu {

std::span<const std::byte> WeightMemory::find(const std::string& key) const {
  const std::span<const std::byte> stored = store_.find(key);
  if (stored.empty()) return stored;
  std::byte* copy = nullptr;
  {
    const std::lock_guard lock(mutex_);
    copy = slabs_.allocate(stored.size());
  }
  std::memcpy(copy, stored.data(), stored.size());
  return {copy, stored.size()};
}

}  // namespace lathe::cpu
