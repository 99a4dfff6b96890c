// SPDX-License-Identifier: Apache-2.0
#include "base/short_text.h"

namespace lathe {
namespace {

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

}  // namespace

size_t text_width(const std::string& text) {
  size_t width = 0;
  for (const char c : text) width += begins_character(c) ? 1 : 0;
  return width;
}

std::string shorten(const std::string& text, size_t width) {
  if (text_width(text) <= width) return text;
  if (width == 0) return "";
  const size_t head = (width - 1) / 2, tail = width - 1 - head;
  const size_t total = text_width(text);
  std::string result;
  size_t position = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && begins_character(text[i])) ++position;
    if (position == head && begins_character(text[i])) result += "\u2026";
    if (position < head || position >= total - tail) result += text[i];
  }
  return result;
}

}  // namespace lathe
