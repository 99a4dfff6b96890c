// SPDX-License-Identifier: Apache-2.0
//
// The bytes of an engine file: named text sections, and blocks of weights. Every offset, length and hash is
// checked before the bytes behind it are used. docs/engine-format.md describes the layout.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace lathe {

// Raised with any change that an older reader would misunderstand.
inline constexpr uint32_t kEngineFormat = 2;
inline constexpr uint32_t kOldestEngineFormat = 1;  // that this build reads
inline constexpr size_t kBlockAlignment = 64;

class ContainerReader {
 public:
  // `source` is the name in errors; `owner` keeps `bytes` alive. Checks the header and all tables.
  ContainerReader(std::span<const std::byte> bytes, std::string source, std::shared_ptr<const void> owner);

  bool has_section(std::string_view name) const { return sections_.contains(name); }
  // Checks the hash. Throws Input when the section is missing or damaged.
  std::string_view section(std::string_view name) const;
  size_t block_count() const { return blocks_.size(); }
  // Checks the hash on first use; thread-safe.
  std::span<const std::byte> block(int64_t index) const;

  const std::string& source() const { return source_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  size_t file_bytes() const { return bytes_.size(); }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Piece {
    uint64_t offset = 0, length = 0, hash = 0;
  };
  void check_bounds(const Piece& piece, const std::string& what) const;
  std::span<const std::byte> bytes_of(const Piece& piece) const {
    return bytes_.subspan(piece.offset, piece.length);
  }
  void read_header();
  void read_sections(uint32_t count);
  void read_blocks();

  std::span<const std::byte> bytes_;
  std::string source_;
  std::shared_ptr<const void> owner_;
  std::map<std::string, Piece, std::less<>> sections_;
  std::vector<Piece> blocks_;
  mutable std::mutex mutex_;
  mutable std::vector<bool> checked_;
};

class ContainerWriter {
 public:
  // The same bytes are stored once. They must live until write().
  int64_t add_block(std::span<const std::byte> bytes);
  void add_section(std::string name, std::string text);
  void write(FileWriter& file) const;

 private:
  struct Block {
    std::span<const std::byte> bytes;
    uint64_t hash = 0;
  };
  std::vector<std::pair<std::string, std::string>> sections_;
  std::vector<Block> blocks_;
  std::multimap<uint64_t, size_t> by_hash_;
};

}  // namespace lathe
