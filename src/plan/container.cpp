// SPDX-License-Identifier: Apache-2.0
//
// Header (64 bytes), section table (64 bytes each), sections, blocks; all numbers little-endian. The last
// section, "blocks", is the table of blocks.
#include "plan/container.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace lathe {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie in memory");

constexpr std::string_view kMagic = "LATHEPLN";
constexpr std::string_view kBlocks = "blocks";
constexpr size_t kHeaderBytes = 64, kEntryBytes = 64, kNameBytes = 32, kBlockEntryBytes = 24;
constexpr uint32_t kMostSections = 4096;

uint64_t align(uint64_t offset) {
  return (offset + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

template <class T>
T read_number(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}
template <class T>
void write_number(std::span<std::byte> bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}
std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

ContainerReader::ContainerReader(std::span<const std::byte> bytes, std::string source,
                                 std::shared_ptr<const void> owner)
    : bytes_(bytes), source_(std::move(source)), owner_(std::move(owner)) {
  read_header();
}

void ContainerReader::fail(const std::string& what) const {
  throw_input_error("engine file '" + source_ + "' " + what);
}

void ContainerReader::read_header() {
  if (bytes_.size() < kMagic.size() || std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) != 0)
    fail(bytes_.empty() ? "is empty"
                        : "is not an engine of Lathe (an engine of another program, or a model?)");
  if (bytes_.size() < kHeaderBytes) fail("is truncated: it has " + std::to_string(bytes_.size()) + " bytes");
  const auto version = read_number<uint32_t>(bytes_, 8);
  if (version > kEngineFormat)
    fail("was written by a newer Lathe (format " + std::to_string(version) + ", this build reads up to " +
         std::to_string(kEngineFormat) + "); build it again from its model, or use the newer Lathe");
  if (hash_bytes(bytes_.first(kHeaderBytes - 8)) != read_number<uint64_t>(bytes_, kHeaderBytes - 8))
    fail("is damaged: the hash of its header does not match");
  if (version < kOldestEngineFormat)
    fail("has format " + std::to_string(version) + ", which this build does not read");
  const auto size = read_number<uint64_t>(bytes_, 16);
  if (size != bytes_.size())
    fail("is truncated or extended: it should have " + std::to_string(size) + " bytes and has " +
         std::to_string(bytes_.size()));
  const auto count = read_number<uint32_t>(bytes_, 12);
  const uint64_t table_bytes = uint64_t{count} * kEntryBytes;
  if (count > kMostSections || kHeaderBytes + table_bytes > bytes_.size())
    fail("is damaged: it claims " + std::to_string(count) + " sections");
  if (hash_bytes(bytes_.subspan(kHeaderBytes, table_bytes)) != read_number<uint64_t>(bytes_, 24))
    fail("is damaged: the hash of its section table does not match");
  read_sections(count);
  read_blocks();
}

void ContainerReader::check_bounds(const Piece& piece, const std::string& what) const {
  if (piece.offset > bytes_.size() || piece.length > bytes_.size() - piece.offset)
    fail("is damaged: " + what + " lies outside the file");
}

void ContainerReader::read_sections(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto entry = bytes_.subspan(kHeaderBytes + i * kEntryBytes, kEntryBytes);
    const char* text = reinterpret_cast<const char*>(entry.data());
    const std::string name(text, strnlen(text, kNameBytes));
    const Piece piece{read_number<uint64_t>(entry, kNameBytes), read_number<uint64_t>(entry, kNameBytes + 8),
                      read_number<uint64_t>(entry, kNameBytes + 16)};
    check_bounds(piece, "section '" + name + "'");
    if (!sections_.emplace(name, piece).second) fail("is damaged: section '" + name + "' appears twice");
  }
}

void ContainerReader::read_blocks() {
  const std::string_view table = section(kBlocks);
  if (table.size() % kBlockEntryBytes != 0) fail("is damaged: its block table has a broken length");
  const auto bytes = as_bytes(table);
  for (size_t at = 0; at < table.size(); at += kBlockEntryBytes) {
    const Piece piece{read_number<uint64_t>(bytes, at), read_number<uint64_t>(bytes, at + 8),
                      read_number<uint64_t>(bytes, at + 16)};
    check_bounds(piece, "block " + std::to_string(blocks_.size()));
    if (piece.offset % kBlockAlignment != 0)
      fail("is damaged: block " + std::to_string(blocks_.size()) + " is not aligned");
    blocks_.push_back(piece);
  }
  checked_.assign(blocks_.size(), false);
}

std::string_view ContainerReader::section(std::string_view name) const {
  const auto it = sections_.find(name);
  if (it == sections_.end()) fail("has no section '" + std::string(name) + "'");
  const auto bytes = bytes_of(it->second);
  if (hash_bytes(bytes) != it->second.hash)
    fail("is damaged: the hash of its section '" + std::string(name) + "' does not match");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> ContainerReader::block(int64_t index) const {
  if (index < 0 || static_cast<size_t>(index) >= blocks_.size())
    fail("refers to block " + std::to_string(index) + ", but has " + std::to_string(blocks_.size()));
  const auto i = static_cast<size_t>(index);
  const auto bytes = bytes_of(blocks_[i]);
  {
    const std::lock_guard lock(mutex_);
    if (checked_[i]) return bytes;
  }
  if (hash_bytes(bytes) != blocks_[i].hash)
    fail("is damaged: the hash of weights block " + std::to_string(index) + " does not match");
  const std::lock_guard lock(mutex_);
  checked_[i] = true;
  return bytes;
}

int64_t ContainerWriter::add_block(std::span<const std::byte> bytes) {
  const uint64_t hash = hash_bytes(bytes);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (std::ranges::equal(blocks_[it->second].bytes, bytes)) return static_cast<int64_t>(it->second);
  by_hash_.emplace(hash, blocks_.size());
  blocks_.push_back({bytes, hash});
  return static_cast<int64_t>(blocks_.size() - 1);
}

void ContainerWriter::add_section(std::string name, std::string text) {
  check(name.size() < kNameBytes && name != kBlocks, "bad section name: " + name);
  sections_.emplace_back(std::move(name), std::move(text));
}

void ContainerWriter::write(FileWriter& file) const {
  auto sections = sections_;
  sections.emplace_back(std::string(kBlocks), std::string(blocks_.size() * kBlockEntryBytes, '\0'));

  uint64_t end = kHeaderBytes + sections.size() * kEntryBytes;
  std::vector<uint64_t> offsets;
  for (const auto& [name, text] : sections) {
    offsets.push_back(align(end));
    end = offsets.back() + text.size();
  }
  std::string& index = sections.back().second;
  const auto index_bytes = std::as_writable_bytes(std::span(index.data(), index.size()));
  std::vector<uint64_t> block_offsets;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    block_offsets.push_back(align(end));
    end = block_offsets.back() + blocks_[i].bytes.size();
    write_number<uint64_t>(index_bytes, i * kBlockEntryBytes, block_offsets.back());
    write_number<uint64_t>(index_bytes, i * kBlockEntryBytes + 8, blocks_[i].bytes.size());
    write_number<uint64_t>(index_bytes, i * kBlockEntryBytes + 16, blocks_[i].hash);
  }

  std::vector<std::byte> head(kHeaderBytes + sections.size() * kEntryBytes);
  for (size_t i = 0; i < sections.size(); ++i) {
    const auto entry = std::span(head).subspan(kHeaderBytes + i * kEntryBytes, kEntryBytes);
    const auto& [name, text] = sections[i];
    std::memcpy(entry.data(), name.data(), name.size());
    write_number<uint64_t>(entry, kNameBytes, offsets[i]);
    write_number<uint64_t>(entry, kNameBytes + 8, text.size());
    write_number<uint64_t>(entry, kNameBytes + 16, hash_bytes(as_bytes(text)));
  }
  std::memcpy(head.data(), kMagic.data(), kMagic.size());
  write_number<uint32_t>(head, 8, kEngineFormat);
  write_number<uint32_t>(head, 12, static_cast<uint32_t>(sections.size()));
  write_number<uint64_t>(head, 16, end);
  write_number<uint64_t>(head, 24, hash_bytes(std::span(head).subspan(kHeaderBytes)));
  write_number<uint64_t>(head, kHeaderBytes - 8, hash_bytes(std::span(head).first(kHeaderBytes - 8)));

  uint64_t written = 0;
  const auto put = [&](uint64_t offset, std::span<const std::byte> bytes) {
    static constexpr std::array<std::byte, kBlockAlignment> kZeros{};
    check(offset >= written && offset - written < kBlockAlignment, "engine file layout");
    file.write(std::span(kZeros).first(offset - written));
    file.write(bytes);
    written = offset + bytes.size();
  };
  put(0, head);
  for (size_t i = 0; i < sections.size(); ++i) put(offsets[i], as_bytes(sections[i].second));
  for (size_t i = 0; i < blocks_.size(); ++i) put(block_offsets[i], blocks_[i].bytes);
}

}  // namespace lathe
