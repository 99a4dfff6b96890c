// SPDX-License-Identifier: Apache-2.0
#include "arguments/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace lathe::cli {
namespace {

constexpr size_t kLongest =
    64;  // longer words are no mistyped flags, and the distance takes the product of two lengths

std::string bare(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string text(word);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> table(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
        continue;
      }
      const size_t replaced = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      table[i][j] = std::min({replaced, table[i - 1][j] + 1, table[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  }
  return table[a.size()][b.size()];
}

// How far apart two words are; `limit` + 1 is too far. The beginning of a longer word is a near miss.
size_t distance(const std::string& word, const std::string& known, size_t limit) {
  constexpr size_t kPrefix = 3;
  const bool begins = word.size() >= kPrefix && known.starts_with(word);
  const size_t difference = std::max(word.size(), known.size()) - std::min(word.size(), known.size());
  if (begins) return std::min<size_t>(difference, limit);
  return difference > limit ? limit + 1 : edit_distance(word, known);
}

}  // namespace

std::vector<std::string_view> nearest_words(std::string_view word,
                                            const std::vector<std::string_view>& known) {
  const std::string text = bare(word);
  if (text.empty() || text.size() > kLongest) return {};
  const size_t limit = std::max<size_t>(1, text.size() / 3);
  std::vector<std::pair<size_t, std::string_view>> near;
  for (const auto candidate : known) {
    const size_t far = distance(text, bare(candidate), limit);
    if (far <= limit) near.emplace_back(far, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string_view> words;
  for (const auto& [far, candidate] : near) {
    if (far == near.front().first && words.size() < 3) words.push_back(candidate);
  }
  return words;
}

std::string suggestion(std::string_view word, const std::vector<std::string_view>& known,
                       std::string_view suffix) {
  std::string text;
  const auto words = nearest_words(word, known);
  for (size_t i = 0; i < words.size(); ++i) {
    const char* before = i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += fmt::format("{}{}{}", before, words[i], suffix);
  }
  return text.empty() ? "" : "did you mean " + text + "?";
}

}  // namespace lathe::cli
