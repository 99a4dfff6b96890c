// SPDX-License-Identifier: Apache-2.0
//
// Blocks that a program may keep in the engine file: packed weights, GPU binaries. Made at build; found again
// when an engine is loaded, or packed anew.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "backend/program.h"
#include "base/aligned_bytes.h"

namespace lathe {

// Names of blocks that are compiled code begin like this: an engine file always keeps them. Others were
// packed from constants, and are packed again at load where the file does not have them.
inline constexpr std::string_view kCompiledBlocks = "cubin/";

// Packs constants once: at build into the store, at load found there. `key` is unique per layer; add a suffix
// per block.
struct PackContext {
  BlobStore& blobs;
  std::string key;
  // The block if it is stored; else calls pack() and stores what it returns. The layer knows how many bytes
  // it will read: a stored block of another size is refused as an Input error (an engine file that does not
  // fit itself).
  std::span<const std::byte> packed(std::string_view suffix, int64_t bytes,
                                    const std::function<std::vector<std::byte>()>& pack) const;
};

// Several layers pack at once. Also counts what was packed or found.
class LockedBlobStore final : public BlobStore {
 public:
  explicit LockedBlobStore(BlobStore& store) : store_(store) {}
  std::span<const std::byte> find(const std::string& key) const override;
  std::span<const std::byte> put(const std::string& key, std::vector<std::byte> bytes) override;
  bool wants_packed() const override { return store_.wants_packed(); }
  int64_t bytes() const { return bytes_; }

 private:
  std::span<const std::byte> note(const std::string& key, std::span<const std::byte> block) const;

  BlobStore& store_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> seen_;
  mutable int64_t bytes_ = 0;
};

// A store in ordinary memory: for timing a tactic, and for tests.
class MemoryBlobStore final : public BlobStore {
 public:
  std::span<const std::byte> find(const std::string& key) const override;
  std::span<const std::byte> put(const std::string& key, std::vector<std::byte> bytes) override;
  std::vector<std::span<const std::byte>> blocks() const;  // all, in the order of their keys

 private:
  std::map<std::string, AlignedBytes> blocks_;
};

}  // namespace lathe
