// SPDX-License-Identifier: Apache-2.0
//
// Packed weights by name: blocks of a mapped engine file, and blocks made during a build.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/program.h"

namespace lathe {

class PackedBlocks final : public BlobStore {
 public:
  explicit PackedBlocks(bool wants_packed = true) : wants_packed_(wants_packed) {}
  std::span<const std::byte> find(const std::string& key) const override;
  std::span<const std::byte> put(const std::string& key, std::vector<std::byte> bytes) override;
  // A block that lies elsewhere; `owner` keeps it alive.
  void add(const std::string& key, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  // All blocks by name.
  std::map<std::string, std::span<const std::byte>> entries() const;
  int64_t bytes() const;
  bool wants_packed() const override { return wants_packed_; }

 private:
  struct Block {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  bool wants_packed_;
  mutable std::mutex mutex_;
  std::map<std::string, Block> blocks_;
};

}  // namespace lathe
