// SPDX-License-Identifier: Apache-2.0
//
// One hash (XXH3, 64 bit) for content, names and cache keys.
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

}  // namespace lathe
