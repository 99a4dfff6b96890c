// SPDX-License-Identifier: Apache-2.0
//
// The table is the C library's, of its locale C.UTF-8, which is always there and says the same on every
// machine; a locale object leaves the process's own locale alone.
#include "plugin/letter_case.h"

#include <clocale>
#include <cstdint>
#include <cwctype>

#include <locale.h>
#include <wctype.h>

#include "base/error.h"

namespace lathe::plugin {

namespace {

struct Letter {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: no UTF-8
};

// The letter at the front of a text, as RFC 3629 says: shortest forms only, no surrogates.
Letter first_letter(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
  uint32_t code = first & (0x7FU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, bytes};
}

void append_letter(std::string& text, uint32_t code) {
  const auto rest = [&](uint32_t shift) { text += static_cast<char>(0x80U | ((code >> shift) & 0x3FU)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0U | code >> 6U);
    rest(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0U | code >> 12U);
    rest(6);
    rest(0);
  } else {
    text += static_cast<char>(0xF0U | code >> 18U);
    rest(12);
    rest(6);
    rest(0);
  }
}

}  // namespace

LetterCase::LetterCase() : table_(newlocale(LC_CTYPE_MASK, "C.UTF-8", static_cast<locale_t>(nullptr))) {
  if (table_ == nullptr)
    throw_system_error("the C library has no locale C.UTF-8, from which upper and lower case are taken");
}

LetterCase::~LetterCase() {
  freelocale(static_cast<locale_t>(table_));
}

std::string LetterCase::change(std::string_view text, LetterChange to) const {
  if (to == LetterChange::None) return std::string(text);
  const auto table = static_cast<locale_t>(table_);
  std::string changed;
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    if (letter.bytes == 0) {
      changed += text.front();
      text.remove_prefix(1);
      continue;
    }
    const auto code = static_cast<wint_t>(letter.code);
    append_letter(changed, to == LetterChange::Lower ? towlower_l(code, table) : towupper_l(code, table));
    text.remove_prefix(letter.bytes);
  }
  return changed;
}

}  // namespace lathe::plugin
