// SPDX-License-Identifier: Apache-2.0
#include "backend/packing.h"

#include "base/error.h"

namespace lathe {

std::span<const std::byte> PackContext::packed(std::string_view suffix, int64_t bytes,
                                               const std::function<std::vector<std::byte>()>& pack) const {
  std::string name = key;
  name += '/';
  name += suffix;
  const std::span<const std::byte> stored = blobs.find(name);
  if (!stored.empty()) {
    if (static_cast<int64_t>(stored.size()) == bytes) return stored;
    throw_input_error("the packed block '" + name + "' has " + std::to_string(stored.size()) +
                      " bytes, and the layer reads " + std::to_string(bytes));
  }
  std::vector<std::byte> made = pack();
  check(static_cast<int64_t>(made.size()) == bytes,
        "packed weights have another size than expected: " + name);
  return blobs.put(name, std::move(made));
}

std::span<const std::byte> LockedBlobStore::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return note(key, store_.find(key));
}

std::span<const std::byte> LockedBlobStore::put(const std::string& key, std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  return note(key, store_.put(key, std::move(bytes)));
}

std::span<const std::byte> LockedBlobStore::note(const std::string& key,
                                                 std::span<const std::byte> block) const {
  if (!block.empty() && seen_.insert(key).second) bytes_ += static_cast<int64_t>(block.size());
  return block;
}

std::span<const std::byte> MemoryBlobStore::find(const std::string& key) const {
  const auto found = blocks_.find(key);
  return found == blocks_.end() ? std::span<const std::byte>{} : found->second.bytes();
}

std::span<const std::byte> MemoryBlobStore::put(const std::string& key, std::vector<std::byte> bytes) {
  return (blocks_[key] = AlignedBytes(std::move(bytes))).bytes();
}

std::vector<std::span<const std::byte>> MemoryBlobStore::blocks() const {
  std::vector<std::span<const std::byte>> all;
  for (const auto& [key, block] : blocks_) all.push_back(block.bytes());
  return all;
}

}  // namespace lathe
