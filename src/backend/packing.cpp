// SPDX-License-Identifier: Apache-2.0
#include "backend/packing.h"

#include <cstring>
#include <memory>
#include <new>

namespace lathe {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

std::span<const std::byte> PackContext::packed(std::string_view suffix,
                                               const std::function<std::vector<std::byte>()>& pack) const {
  std::string name = key;
  name += '/';
  name += suffix;
  const std::span<const std::byte> stored = blobs.find(name);
  if (!stored.empty()) return stored;
  return blobs.put(name, pack());
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

void MemoryBlobStore::Release::operator()(std::byte* data) const {
  ::operator delete(data, kAlignment);
}

std::span<const std::byte> MemoryBlobStore::find(const std::string& key) const {
  const auto found = blocks_.find(key);
  if (found == blocks_.end()) return {};
  return {found->second.data.get(), found->second.bytes};
}

std::span<const std::byte> MemoryBlobStore::put(const std::string& key, std::vector<std::byte> bytes) {
  Block block{std::unique_ptr<std::byte, Release>(
                  static_cast<std::byte*>(::operator new(std::max<size_t>(bytes.size(), 1), kAlignment))),
              bytes.size()};
  if (!bytes.empty()) std::memcpy(block.data.get(), bytes.data(), bytes.size());
  blocks_.insert_or_assign(key, std::move(block));
  return find(key);
}

std::vector<std::span<const std::byte>> MemoryBlobStore::blocks() const {
  std::vector<std::span<const std::byte>> all;
  for (const auto& [key, block] : blocks_) all.emplace_back(block.data.get(), block.bytes);
  return all;
}

}  // namespace lathe
