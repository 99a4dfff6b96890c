// SPDX-License-Identifier: Apache-2.0
#include "plan/packed_blocks.h"

#include "base/aligned_bytes.h"

namespace lathe {

std::span<const std::byte> PackedBlocks::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(key);
  return it == blocks_.end() ? std::span<const std::byte>{} : it->second.bytes;
}

std::span<const std::byte> PackedBlocks::put(const std::string& key, std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const AlignedBytes>(std::move(bytes));
  add(key, owner->bytes(), owner);
  return owner->bytes();
}

void PackedBlocks::add(const std::string& key, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner) {
  const std::lock_guard lock(mutex_);
  blocks_.insert_or_assign(key, Block{bytes, std::move(owner)});
}

std::map<std::string, std::span<const std::byte>> PackedBlocks::entries() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::span<const std::byte>> result;
  for (const auto& [key, block] : blocks_) result.emplace(key, block.bytes);
  return result;
}

int64_t PackedBlocks::bytes() const {
  int64_t sum = 0;
  for (const auto& [key, bytes] : entries()) sum += static_cast<int64_t>(bytes.size());
  return sum;
}

}  // namespace lathe
