// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/weight_memory.h"

#include <algorithm>
#include <cstring>

namespace lathe::cpu {
namespace {

// A small engine takes no huge page; what is never touched of a slab takes no memory.
constexpr size_t kFirstSlab = size_t{512} << 10, kSlab = size_t{32} << 20, kAlignment = 64;

}  // namespace

std::span<const std::byte> WeightMemory::find(const std::string& key) const {
  const std::span<const std::byte> stored = store_.find(key);
  if (stored.empty()) return stored;
  std::byte* copy = allocate(stored.size());
  std::memcpy(copy, stored.data(), stored.size());
  return {copy, stored.size()};
}

std::byte* WeightMemory::allocate(size_t bytes) const {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard lock(mutex_);
  if (slabs_.empty() || used_ + bytes > slabs_.back().bytes()) {
    slabs_.emplace_back(std::max(bytes, slabs_.empty() ? kFirstSlab : kSlab));
    used_ = 0;
  }
  std::byte* const at = slabs_.back().begin() + used_;
  used_ += bytes;
  return at;
}

}  // namespace lathe::cpu
