// SPDX-License-Identifier: Apache-2.0
//
// XXH3 comes from libxxhash. CRC-32 is ours: eight bytes at a time with tables made at compile time ("slicing
// by eight"), fast enough for the weights of a big model and no reason to depend on zlib.
#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>

namespace lathe {
namespace {

using Crc32Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Crc32Tables make_crc32_tables() {
  Crc32Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
    tables[0][byte] = crc;
  }
  // Table k: the effect of a byte that is followed by k zero bytes.
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xffu];
    }
  }
  return tables;
}

constexpr Crc32Tables kCrc32 = make_crc32_tables();
static_assert(std::endian::native == std::endian::little, "crc32 reads eight bytes as a little-endian word");

}  // namespace

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t hash_text(std::string_view text, uint64_t seed) {
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())), seed);
}

std::string hash_to_string(uint64_t hash) {
  return fmt::format("0x{:016x}", hash);
}

uint32_t crc32(std::span<const std::byte> bytes, uint32_t previous) {
  uint32_t crc = ~previous;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kCrc32[7 - k][(word >> (8 * k)) & 0xffu];
  }
  for (const std::byte b : bytes) crc = (crc >> 8) ^ kCrc32[0][(crc ^ static_cast<uint32_t>(b)) & 0xffu];
  return ~crc;
}

}  // namespace lathe
