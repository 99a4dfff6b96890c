// SPDX-License-Identifier: Apache-2.0
//
// One hash (XXH3, 64 bit) for content, names and cache keys, and the CRC-32 that zip and our model tests use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lathe {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t hash_text(std::string_view text, uint64_t seed = 0);
// "0x0123456789abcdef"
std::string hash_to_string(uint64_t hash);
// CRC-32 (IEEE 802.3, as in zlib); pass the previous value to go on.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t previous = 0);

}  // namespace lathe
