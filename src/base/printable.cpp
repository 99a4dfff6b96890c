// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace lathe {
namespace {

bool is_plain(unsigned char c) {
  return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t';
}

// Reads a character of two to four bytes at the front; its size, 0 when it is none.
size_t read_character(std::string_view text, uint32_t& code) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t size = first >= 0xf0 && first < 0xf5   ? 4
                      : first >= 0xe0 && first < 0xf0 ? 3
                      : first >= 0xc2 && first < 0xe0 ? 2
                                                      : 0;
  if (size == 0 || text.size() < size) return 0;
  code = first & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c & 0xc0) != 0x80) return 0;
    code = code << 6 | (c & 0x3fu);
  }
  const bool too_long = (size == 3 && code < 0x800) || (size == 4 && (code < 0x10000 || code > 0x10ffff));
  return too_long || (code >= 0xd800 && code < 0xe000) ? 0 : size;
}

bool acts(uint32_t code) {
  const bool control = code < 0xa0, separates_lines = code == 0x2028 || code == 0x2029;
  const bool turns = code == 0x61c || code == 0x200e || code == 0x200f ||
                     (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return control || separates_lines || turns;
}

}  // namespace

std::string printable(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return is_plain(static_cast<unsigned char>(c)); }))
    return std::string(text);
  std::string result;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    uint32_t code = first;
    const size_t size = first < 0x80 ? 1 : read_character(text, code);
    if (size == 0)
      result += fmt::format("\\x{:02x}", first);
    else if (size == 1)
      is_plain(first) ? result += text[0] : result += fmt::format("\\x{:02x}", first);
    else
      acts(code) ? result += fmt::format("\\u{:04x}", code) : result += text.substr(0, size);
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return result;
}

}  // namespace lathe
