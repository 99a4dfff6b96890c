// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

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
    text = std::string(segments[i]) + (i + 1 < first ? "/\u2026/" : "/");
    break;
  }
  for (size_t i = first; i < segments.size(); ++i) text += (i > first ? "/" : "") + std::string(segments[i]);
  return text;
}

// Of a fused layer's names the first that is a path to a node: quantised models of TensorFlow begin with
// tensors ("a/ReadVariableOp:0") and nodes that a converter made ("QuantLinearNode__638"). Without one, the
// first.
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

std::string layer_label(const std::string& name) {
  std::string_view rest = name;
  std::string before;
  if (rest.starts_with("Reformatting CopyNode for ")) {
    before = rest.find("Output Tensor") != std::string_view::npos ? "reformat of " : "reformat for ";
    // "... Tensor 0 to NODE"
    for (const std::string_view word : {" to ", " of ", " from "}) {
      if (const size_t at = rest.find(word); at != std::string_view::npos) {
        rest.remove_prefix(at + word.size());
        break;
      }
    }
  }
  size_t more = 0;
  for (size_t at = rest.find(" + "); at != std::string_view::npos; at = rest.find(" + ", at + 3)) ++more;
  return before + last_segments(telling_part(rest)) + (more > 0 ? fmt::format(" +{}", more) : "");
}

std::string layer_label(const std::string& name, size_t width) {
  return shorten(layer_label(name), width);
}

std::string three_digits(double value) {
  if (value == 0 || !std::isfinite(value)) return fmt::format("{}", value);
  const double size = std::fabs(value);
  if (size < 1e-6) return fmt::format("{:.2e}", value);
  const int decimals = std::max(0, 2 - static_cast<int>(std::floor(std::log10(size))));
  std::string text = fmt::format("{:.{}f}", value, decimals);
  // 0.9996 becomes 1.000: one digit too many.
  if (decimals > 0 && std::strtod(text.c_str(), nullptr) >= std::pow(10, 3 - decimals)) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string ms_text(double ms) {
  return three_digits(ms) + " ms";
}

std::string si_text(double value, const std::string& unit) {
  constexpr std::array<const char*, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  size_t step = 0;
  while (std::fabs(value) >= 1000 && step + 1 < kPrefixes.size()) {
    value /= 1000;
    ++step;
  }
  return fmt::format("{} {}{}", three_digits(value), kPrefixes[step], unit);
}

std::string binary_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t step = 0;
  while (std::fabs(bytes) >= 1024 && step + 1 < kUnits.size()) {
    bytes /= 1024;
    ++step;
  }
  return fmt::format("{} {}", step == 0 ? fmt::format("{:.0f}", bytes) : three_digits(bytes), kUnits[step]);
}

std::string change_text(const EnginePair& pair) {
  if (pair.latency) {
    const auto& l = *pair.latency;
    std::string text = fmt::format("latency {} -> {}, {:+.2f} %", three_digits(l.baseline_ms),
                                   ms_text(l.candidate_ms), l.change_percent);
    if (l.low_percent && l.high_percent)
      text += fmt::format(" (95 %: {:+.2f} to {:+.2f} %)", *l.low_percent, *l.high_percent);
    if (!l.significant) text += ", within the noise";
    return text;
  }
  if (!pair.delta_ms || *pair.baseline_sum_ms <= 0) return "no times to compare";
  return fmt::format("layer sum {} -> {}, {:+.2f} %", three_digits(*pair.baseline_sum_ms),
                     ms_text(*pair.candidate_sum_ms), 100 * *pair.delta_ms / *pair.baseline_sum_ms);
}

}  // namespace lathe::explorer
