// SPDX-License-Identifier: Apache-2.0
#include "tune/timing_cache_lines.h"

#include <charconv>

#include "base/error.h"

namespace lathe {
namespace {

template <class Number, class... Format>
Number number_of(std::string_view text, Format... format) {
  Number number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number, format...);
  check(result.ec == std::errc(), "a timing cache wrote a line that is none");
  return number;
}

std::string_view take_field(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

// "<target> <signature> <tactic> <milliseconds>  # <comment>"; "untimed:<seconds>" instead of a time.
TimingCacheLine parse_line(std::string_view line) {
  TimingCacheLine parsed;
  for (uint64_t* part : {&parsed.key.target, &parsed.key.signature, &parsed.key.tactic})
    *part = number_of<uint64_t>(take_field(line), 16);
  const std::string_view time = take_field(line);
  if (!time.starts_with("untimed:")) parsed.milliseconds = number_of<double>(time);
  if (const size_t comment = line.find("# "); comment != line.npos) parsed.comment = line.substr(comment + 2);
  return parsed;
}

}  // namespace

std::vector<TimingCacheLine> timing_cache_lines(const TimingCache& cache) {
  const std::string text = cache.to_text();
  std::vector<TimingCacheLine> lines;
  std::string_view left = text;
  left.remove_prefix(std::min(left.find('\n'), left.size() - 1) + 1);  // the header
  while (!left.empty()) {
    const size_t end = std::min(left.find('\n'), left.size());
    if (end > 0) lines.push_back(parse_line(left.substr(0, end)));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return lines;
}

std::optional<TimingCache> with_time(const TimingCache& cache, const TimingCache::Key& key,
                                     double milliseconds) {
  // A time that is there already stays when caches merge: the new one comes first.
  TimingCache changed;
  for (const TimingCacheLine& line : timing_cache_lines(cache)) {
    if (line.key != key) continue;
    changed.insert(key, milliseconds, line.comment);
    changed.merge(cache);
    return changed;
  }
  return std::nullopt;
}

}  // namespace lathe
