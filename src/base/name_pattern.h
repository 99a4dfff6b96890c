// SPDX-License-Identifier: Apache-2.0
//
// Patterns of names: '*' stands for any text, also none; all else for itself.
#pragma once

#include <string_view>

namespace lathe {

// Takes at most as many steps as both are long, multiplied.
inline bool matches_pattern(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

inline bool is_pattern(std::string_view text) {
  return text.find('*') != std::string_view::npos;
}

}  // namespace lathe
