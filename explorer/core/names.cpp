// SPDX-License-Identifier: Apache-2.0
//
// What names carry: shape profiles, ONNX nodes, control characters.
#include <algorithm>
#include <cctype>

#include "explorer/core/readers.h"

namespace lathe::explorer {
namespace {

constexpr std::string_view kOnnxLayer = "[ONNX Layer: ";

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Splits at `separator` outside of parentheses.
std::vector<std::string_view> split_outside(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (depth == 0 && text.substr(i, separator.size()) == separator) {
      parts.push_back(text.substr(start, i - start));
      start = i + separator.size();
      i = start - 1;
    }
  }
  parts.push_back(text.substr(start));
  return parts;
}

void add_name_origins(std::string_view name, int depth, std::vector<std::string>& origins) {
  name = trim(name);
  if (depth > 32 || name.empty()) return;
  if (const auto parts = split_outside(name, " + "); parts.size() > 1) {
    for (const auto part : parts) add_name_origins(part, depth + 1, origins);
    return;
  }
  for (const std::string_view wrapper : {"PWN(", "fusedPointwiseNode("}) {
    if (name.starts_with(wrapper) && name.ends_with(")")) {
      name = name.substr(wrapper.size(), name.size() - wrapper.size() - 1);
      for (const auto part : split_outside(name, ", ")) add_name_origins(part, depth + 1, origins);
      return;
    }
  }
  origins.emplace_back(name);
}

}  // namespace

std::string clean_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '\x1e' || c == '\x1f'; }, '+');
  return name;
}

int shape_profile_of(const std::string& name) {
  constexpr std::string_view kMark = "[profile ";
  const size_t at = name.rfind(kMark);
  if (at == std::string::npos) return 0;
  int number = 0;
  size_t i = at + kMark.size();
  const size_t first = i;
  for (; i < name.size() && std::isdigit(static_cast<unsigned char>(name[i])) != 0 && number < 100000; ++i)
    number = number * 10 + (name[i] - '0');
  return i > first && i < name.size() && name[i] == ']' ? number : 0;
}

std::vector<std::string> metadata_origins(const std::string& metadata) {
  std::vector<std::string> origins;
  size_t at = metadata.find(kOnnxLayer);
  while (at != std::string::npos) {
    const size_t start = at + kOnnxLayer.size();
    at = metadata.find(kOnnxLayer, start);
    // A node's name may hold brackets: its entry ends with the last one before the next entry.
    std::string_view entry =
        std::string_view(metadata).substr(start, at == std::string::npos ? std::string::npos : at - start);
    if (const size_t end = entry.rfind(']'); end != std::string_view::npos) entry = entry.substr(0, end);
    std::string name(entry);
    if (std::find(origins.begin(), origins.end(), name) == origins.end()) origins.push_back(std::move(name));
  }
  return origins;
}

std::vector<std::string> name_origins(const std::string& layer_name) {
  std::vector<std::string> origins;
  // Inserted by the builder, not in the model; and blocks named after their ends only.
  for (const std::string_view inserted :
       {"Reformatting ", "__my", "{ForeignNode", "{Myelin", "Unnamed Layer"}) {
    if (layer_name.find(inserted) != std::string::npos) return origins;
  }
  std::string name = layer_name;
  if (const size_t suffix = name.rfind(" [profile "); suffix != std::string::npos) name.resize(suffix);
  add_name_origins(name, 0, origins);
  return origins;
}

}  // namespace lathe::explorer
