// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <vector>

#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}

// The last three segments of a path, before them the innermost one that ends in a number.
std::string last_segments(std::string_view path) {
  std::vector<std::string_view> segments;
  for (size_t start = 0; start < path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (end > start) segments.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  constexpr size_t kTail = 3;
  const size_t first = segments.size() > kTail ? segments.size() - kTail : 0;
  std::string text;
  for (size_t i = first; i-- > 0;) {
    if (std::isdigit(static_cast<unsigned char>(segments[i].back())) == 0) continue;
    text = std::string(segments[i]) + (i + 1 < first ? "/../" : "/");
    break;
  }
  for (size_t i = first; i < segments.size(); ++i) text += (i > first ? "/" : "") + std::string(segments[i]);
  return text;
}

// Of a fused layer's names the first that is a path to a node: quantised models of TensorFlow begin with tensors
// ("a/ReadVariableOp:0") and nodes that a converter made ("QuantLinearNode__638"). Without one, the first.
std::string_view telling_part(std::string_view name) {
  for (size_t start = 0; start < name.size();) {
    const size_t end = std::min(name.find(" + ", start), name.size());
    const std::string_view part = name.substr(start, end - start);
    const size_t colon = part.rfind(':');
    const bool is_tensor = colon != std::string_view::npos && colon + 1 < part.size() &&
                           part.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
    if (part.find('/') != std::string_view::npos && !is_tensor) return part;
    start = end + 3;
  }
  return name.substr(0, name.find(" + "));
}

}  // namespace

std::string layer_label(const std::string& name, size_t width) {
  if (text_width(name) <= width) return name;
  std::string_view rest = name;
  std::string before;
  if (rest.starts_with("Reformatting CopyNode for ")) {
    before = rest.find("Output Tensor") != std::string_view::npos ? "after " : "before ";
    // "... Tensor 0 to NODE"
    for (const std::string_view word : {" to ", " of ", " from "}) {
      if (const size_t at = rest.find(word); at != std::string_view::npos) {
        rest.remove_prefix(at + word.size());
        break;
      }
    }
    before = "reformat " + before;
  }
  size_t more = 0;
  for (size_t at = rest.find(" + "); at != std::string_view::npos; at = rest.find(" + ", at + 3)) ++more;
  const std::string label =
      before + last_segments(telling_part(rest)) + (more > 0 ? fmt::format(" +{}", more) : "");
  return shorten(label, width);
}

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
