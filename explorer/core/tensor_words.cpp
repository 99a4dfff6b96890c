// SPDX-License-Identifier: Apache-2.0
//
// Types are found by words rather than by a table of phrases: the phrases differ between releases (a missing
// blank, a trailing "format", "(kLINEAR)"), the words for the type do not.
#include "explorer/core/tensor_words.h"

#include <array>
#include <cctype>
#include <limits>

namespace lathe::explorer {
namespace {

struct TypeWord {
  std::string_view word, type;
};
constexpr std::array<TypeWord, 44> kTypeWords = {{
    {"FLOAT", "FP32"},
    {"FP32", "FP32"},
    {"FLOAT32", "FP32"},
    {"KFLOAT", "FP32"},
    {"TF32", "FP32"},
    {"HALF", "FP16"},
    {"FP16", "FP16"},
    {"FLOAT16", "FP16"},
    {"KHALF", "FP16"},
    {"BFLOAT16", "BF16"},
    {"BF16", "BF16"},
    {"KBF16", "BF16"},
    {"DOUBLE", "FP64"},
    {"FP64", "FP64"},
    {"FP8", "FP8"},
    {"FP8E4M3", "FP8"},
    {"KFP8", "FP8"},
    {"E8M0", "FP8"},
    {"FP8E5M2", "FP8"},
    {"FP4", "FP4"},
    {"FP4E2M1", "FP4"},
    {"KFP4", "FP4"},
    {"INT4", "INT4"},
    {"KINT4", "INT4"},
    {"INT8", "INT8"},
    {"KINT8", "INT8"},
    {"INT16", "INT16"},
    {"INT32", "INT32"},
    {"KINT32", "INT32"},
    {"INT64", "INT64"},
    {"KINT64", "INT64"},
    {"UINT4", "UINT4"},
    {"UINT8", "UINT8"},
    {"KUINT8", "UINT8"},
    {"UINT16", "UINT16"},
    {"UINT32", "UINT32"},
    {"UINT64", "UINT64"},
    {"BOOL", "BOOL"},
    {"KBOOL", "BOOL"},
    {"FLOATCOMPLEX", "COMPLEX64"},
    {"DOUBLECOMPLEX", "COMPLEX128"},
    {"COMPLEX64", "COMPLEX64"},
    {"COMPLEX128", "COMPLEX128"},
    {"FLOAT64", "FP64"},
}};

struct TypeBits {
  std::string_view type;
  int bits;
};
constexpr std::array<TypeBits, 18> kTypeBits = {{{"FP32", 32},
                                                 {"FP16", 16},
                                                 {"BF16", 16},
                                                 {"FP64", 64},
                                                 {"FP8", 8},
                                                 {"FP4", 4},
                                                 {"INT4", 4},
                                                 {"UINT4", 4},
                                                 {"INT8", 8},
                                                 {"UINT8", 8},
                                                 {"INT16", 16},
                                                 {"UINT16", 16},
                                                 {"INT32", 32},
                                                 {"UINT32", 32},
                                                 {"INT64", 64},
                                                 {"UINT64", 64},
                                                 {"BOOL", 8},
                                                 {"COMPLEX64", 64}}};

// Calls `see` with every run of letters and digits, in capitals, until it says true.
template <class See>
void for_words(std::string_view text, See see) {
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const auto c = i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
    if (std::isalnum(c) != 0) {
      word += static_cast<char>(std::toupper(c));
    } else if (!word.empty()) {
      if (see(word)) return;
      word.clear();
    }
  }
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// How many channels a layout stores together; 1 for none.
int64_t channel_vector(std::string_view format) {
  constexpr std::array<std::pair<std::string_view, int64_t>, 5> kWide = {
      {{"Two wide", 2}, {"Four wide", 4}, {"Eight wide", 8}, {"Sixteen wide", 16}, {"Thirty-two wide", 32}}};
  for (const auto& [words, width] : kWide) {
    if (contains(format, words)) return width;
  }
  const size_t at = format.find("channel % ");
  if (at == std::string_view::npos) return 1;
  int64_t width = 0;
  for (size_t i = at + 10;
       i < format.size() && std::isdigit(static_cast<unsigned char>(format[i])) != 0 && width < 1000; ++i)
    width = width * 10 + (format[i] - '0');
  return width > 0 ? width : 1;
}

}  // namespace

std::string element_type(std::string_view words) {
  std::string result;
  for_words(words, [&](const std::string& word) {
    for (const auto& [known, type] : kTypeWords) {
      if (word == known) result = type;
    }
    return !result.empty();
  });
  return result;
}

int element_bits(std::string_view type) {
  if (type == "COMPLEX128") return 128;
  for (const auto& [known, bits] : kTypeBits) {
    if (type == known) return bits;
  }
  return 0;
}

bool is_float_type(std::string_view type) {
  return type.substr(0, 2) == "FP" || type == "BF16";
}

std::optional<int64_t> element_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    if (dim < 0) return {};
    if (dim != 0 && count > std::numeric_limits<int64_t>::max() / 256 / dim) return {};
    count *= dim;
  }
  return count;
}

std::optional<int64_t> tensor_bytes(const Shape& shape, std::string_view type, std::string_view format) {
  const int bits = element_bits(type);
  Shape stored = shape;
  if (const int64_t vector = channel_vector(format);
      vector > 1 && stored.size() >= 2 && stored[1] >= 0 && stored[1] < (int64_t{1} << 40))
    stored[1] = (stored[1] + vector - 1) / vector * vector;
  const auto count = element_count(stored);
  if (bits == 0 || !count) return {};
  return (*count * bits + 7) / 8;
}

}  // namespace lathe::explorer
