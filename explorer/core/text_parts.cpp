// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

}  // namespace

std::string si_text(double value, const std::string& unit) {
  constexpr std::array<const char*, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  size_t step = 0;
  while (std::fabs(value) >= 1000 && step + 1 < kPrefixes.size()) {
    value /= 1000;
    ++step;
  }
  return fmt::format("{:.4g} {}{}", value, kPrefixes[step], unit);
}

std::string binary_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t step = 0;
  while (std::fabs(bytes) >= 1024 && step + 1 < kUnits.size()) {
    bytes /= 1024;
    ++step;
  }
  return fmt::format("{:.4g} {}", bytes, kUnits[step]);
}

size_t text_width(const std::string& text) {
  size_t width = 0;
  for (const char c : text) width += begins_character(c) ? 1 : 0;
  return width;
}

std::string shorten(const std::string& text, size_t width) {
  if (text_width(text) <= width) return text;
  if (width <= 2) return std::string(width, '.');
  const size_t head = (width - 2) / 2, tail = width - 2 - head;
  const size_t total = text_width(text);
  std::string result;
  size_t position = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && begins_character(text[i])) ++position;
    if (position == head && begins_character(text[i])) result += "..";
    if (position < head || position >= total - tail) result += text[i];
  }
  return result;
}

std::string change_text(const EnginePair& pair) {
  if (pair.latency) {
    const auto& l = *pair.latency;
    std::string text =
        fmt::format("latency {:g} -> {:g} ms, {:+.2f} %", l.baseline_ms, l.candidate_ms, l.change_percent);
    if (l.low_percent && l.high_percent)
      text += fmt::format(" (95 %: {:+.2f} to {:+.2f} %)", *l.low_percent, *l.high_percent);
    if (!l.significant) text += ", within the noise";
    return text;
  }
  if (!pair.delta_ms || *pair.baseline_sum_ms <= 0) return "no times to compare";
  return fmt::format("layer sum {:g} -> {:g} ms, {:+.2f} %", *pair.baseline_sum_ms, *pair.candidate_sum_ms,
                     100 * *pair.delta_ms / *pair.baseline_sum_ms);
}

}  // namespace lathe::explorer
