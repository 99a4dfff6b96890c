// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/device/weight_memory.h"

#include <cstring>

namespace lathe::cpu {

std::span<const std::byte> WeightMemory::find(const std::string& key) const {
  const std::span<const std::byte> stored = store_.find(key);
  return stored.empty() ? stored : copy(stored);
}

std::span<const std::byte> WeightMemory::put(const std::string& key, std::vector<std::byte> bytes) {
  if (store_.wants_packed()) return store_.put(key, std::move(bytes));
  {
    const std::lock_guard lock(mutex_);
    packed_bytes_ += static_cast<int64_t>(bytes.size());
  }
  return copy(bytes);
}

std::span<const std::byte> WeightMemory::copy(std::span<const std::byte> bytes) const {
  std::byte* to = nullptr;
  {
    const std::lock_guard lock(mutex_);
    to = slabs_.allocate(bytes.size());
  }
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return {to, bytes.size()};
}

}  // namespace lathe::cpu
