// SPDX-License-Identifier: Apache-2.0
//
// The timing cache: what was measured, as text. One line per measurement; files of different machines merge.
//
//   lathe timing cache 1
//   <target key hash> <signature hash> <tactic id> <milliseconds>  # <signature, for people>
//   <target key hash> <signature hash> <tactic id> untimed:<seconds>  # a budget of so many seconds ended
//                                                                     before its turn
//
// What a budget did not reach is in the cache too, so that a build from it decides the same; a larger budget
// times it. The key is everything that the time depends on, so an entry is either right or never looked up:
// lines that cannot be read are skipped and counted. Times are rounded to the text's digits before anybody
// uses them: a build from the cache sees the same numbers as the build that measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

class TimingCache {
 public:
  struct Key {
    uint64_t target = 0;     // hash of Target::key and threads
    uint64_t signature = 0;  // hash of the layer's signature with types and formats
    uint64_t tactic = 0;     // Tactic::id
    auto operator<=>(const Key&) const = default;
  };

  // The rounded time that later lookups give.
  double insert(const Key& key, double milliseconds, std::string_view comment = {});
  std::optional<double> find(const Key& key) const;

  // A budget of `budget_seconds` ended before the tactic was timed.
  void insert_untimed(const Key& key, double budget_seconds, std::string_view comment = {});
  // Was it not timed within this budget or a larger one?
  bool is_untimed(const Key& key, double budget_seconds) const;

  // Adds the entries of a text. A time that is there already stays; it takes the place of an untimed entry,
  // and of two untimed ones the larger budget counts. Returns how many lines were skipped.
  int merge_text(std::string_view text);
  void merge(const TimingCache& other);
  std::string to_text() const;  // sorted by key

  // Files. A missing file gives an empty cache and false; a foreign one is an Input error (it would be
  // overwritten).
  bool load(const std::filesystem::path& path);
  // Merges with what is in the file by now, under a lock file, and writes atomically.
  void save(const std::filesystem::path& path) const;

  size_t size() const { return entries_.size(); }
  bool operator==(const TimingCache& other) const;
  // Lookups since creation, for the log.
  int64_t hits() const { return hits_; }
  int64_t misses() const { return misses_; }

 private:
  struct Entry {
    double milliseconds = 0;  // 0: untimed
    double budget_seconds = 0;
    std::string comment;
  };
  void add(const Key& key, const Entry& entry);
  std::map<Key, Entry> entries_;
  mutable int64_t hits_ = 0, misses_ = 0;
};

// A time as the cache's text says it: six significant digits.
double round_time_ms(double milliseconds);

}  // namespace lathe
