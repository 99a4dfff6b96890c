// SPDX-License-Identifier: Apache-2.0
//
// Upper and lower case of UTF-8, by Unicode's table of single letters: "ß" stays "ß". What is no UTF-8 stays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::plugin {

enum class LetterChange : uint8_t { None, Lower, Upper };

// A letter of two bytes may become one of three.
inline constexpr int64_t kMostGrowth = 2;

class LetterCase {
 public:
  LetterCase();
  ~LetterCase();
  LetterCase(const LetterCase&) = delete;
  LetterCase& operator=(const LetterCase&) = delete;
  std::string change(std::string_view text, LetterChange to) const;

 private:
  void* table_;
};

}  // namespace lathe::plugin
