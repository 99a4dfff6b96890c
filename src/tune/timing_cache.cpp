// SPDX-License-Identifier: Apache-2.0
//
// A line stands for itself: caches merge by concatenation, and a damaged line costs one measurement.
#include "tune/timing_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace lathe {
namespace {

constexpr std::string_view kMagic = "lathe timing cache ";
constexpr std::string_view kHeader = "lathe timing cache 1";
constexpr std::string_view kUntimed = "untimed:";

std::string number_text(double number) {
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::general, 6);
  return {text.data(), end.ptr};
}

std::string hex(uint64_t number) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; number >>= 4) text[i] = "0123456789abcdef"[number & 15];
  return text;
}

std::string_view take_word(std::string_view& line) {
  const size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
  const size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

template <class Number, class... Format>
bool parse(std::string_view text, Number& number, Format... format) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number, format...);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && !text.empty();
}

std::string one_line(std::string_view comment) {
  std::string line(comment);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return line;
}

// "0.25" or "untimed:26". Every time is more than 0, so that 0 can stand for untimed.
bool parse_time(std::string_view word, double& milliseconds, double& budget_seconds) {
  const bool untimed = word.starts_with(kUntimed);
  if (untimed) word.remove_prefix(kUntimed.size());
  double& number = untimed ? budget_seconds : milliseconds;
  return parse(word, number, std::chars_format::general) && std::isfinite(number) &&
         (untimed ? number >= 0 : number > 0);
}

// Holds `path`.lock as long as it lives, so that two builds that end together lose no entries. The file goes
// with the lock: who waited for a file that is gone holds a lock that nobody else sees, and takes another
// one.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path) : name_(path.string() + ".lock") {
    do {
      if (file_ >= 0) ::close(file_);
      file_ = ::open(name_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
      if (file_ < 0) throw_system_error("cannot open the lock file '" + name_ + "': " + std::strerror(errno));
      while (::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
      }
    } while (!is_named());
  }
  ~FileLock() {
    ::unlink(name_.c_str());
    ::close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  bool is_named() const {
    struct stat held {
    }, named{};
    return ::fstat(file_, &held) == 0 && ::stat(name_.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
  }

  std::string name_;
  int file_ = -1;
};

}  // namespace

double round_time_ms(double milliseconds) {
  double rounded = 0;
  parse(number_text(milliseconds), rounded, std::chars_format::general);
  return rounded;
}

double TimingCache::insert(const Key& key, double milliseconds, std::string_view comment) {
  const double rounded = round_time_ms(milliseconds);
  entries_[key] = {.milliseconds = rounded, .comment = one_line(comment)};
  return rounded;
}

void TimingCache::insert_untimed(const Key& key, double budget_seconds, std::string_view comment) {
  add(key, {.budget_seconds = round_time_ms(budget_seconds), .comment = one_line(comment)});
}

bool TimingCache::is_untimed(const Key& key, double budget_seconds) const {
  const auto it = entries_.find(key);
  return it != entries_.end() && it->second.milliseconds == 0 &&
         it->second.budget_seconds >= round_time_ms(budget_seconds);
}

void TimingCache::add(const Key& key, const Entry& entry) {
  const auto [it, is_new] = entries_.emplace(key, entry);
  Entry& old = it->second;
  if (is_new || old.milliseconds > 0) return;
  if (entry.milliseconds > 0 || entry.budget_seconds > old.budget_seconds) old = entry;
}

std::optional<double> TimingCache::find(const Key& key) const {
  const auto it = entries_.find(key);
  const bool timed = it != entries_.end() && it->second.milliseconds > 0;
  ++(timed ? hits_ : misses_);
  return timed ? std::optional(it->second.milliseconds) : std::nullopt;
}

int TimingCache::merge_text(std::string_view text) {
  int skipped = 0;
  bool current = false;  // below a header of our version
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with(kMagic)) {
      current = line == kHeader;
      continue;
    }
    std::string_view comment;
    if (const size_t hash = line.find('#'); hash != line.npos) {
      comment = line.substr(hash + 1);
      if (comment.starts_with(' ')) comment.remove_prefix(1);
      line = line.substr(0, hash);
    }
    const std::string_view target = take_word(line);
    if (target.empty()) continue;
    Key key;
    const bool has_key = current && target.size() == 16 && parse(target, key.target, 16) &&
                         parse(take_word(line), key.signature, 16) && parse(take_word(line), key.tactic, 16);
    Entry entry{.comment = one_line(comment)};
    if (!has_key || !parse_time(take_word(line), entry.milliseconds, entry.budget_seconds) ||
        !take_word(line).empty())
      ++skipped;
    else
      add(key, entry);
  }
  return skipped;
}

void TimingCache::merge(const TimingCache& other) {
  for (const auto& [key, entry] : other.entries_) add(key, entry);
}

std::string TimingCache::to_text() const {
  std::string text(kHeader);
  text += "\n";
  for (const auto& [key, entry] : entries_) {
    text += hex(key.target) + " " + hex(key.signature) + " " + hex(key.tactic) + " " +
            (entry.milliseconds > 0 ? number_text(entry.milliseconds)
                                    : std::string(kUntimed) + number_text(entry.budget_seconds));
    if (!entry.comment.empty()) text += "  # " + entry.comment;
    text += "\n";
  }
  return text;
}

bool TimingCache::load(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return false;
  if (!std::filesystem::is_regular_file(path, ignored))  // a device may never end
    throw_input_error("'" + path.string() +
                      "' is not a regular file: a timing cache is read, locked and replaced");
  const std::string text = read_file(path);
  if (!text.empty() && !text.starts_with(kMagic))
    throw_input_error(
        "'" + path.string() +
        "' is not a timing cache of Lathe; it would be overwritten. Name another file, or remove this one");
  merge_text(text);
  return true;
}

void TimingCache::save(const std::filesystem::path& path) const {
  const FileLock lock(path);
  TimingCache all = *this;
  all.load(path);  // what another build measured meanwhile
  write_file_atomically(path, all.to_text());
}

bool TimingCache::operator==(const TimingCache& other) const {
  return to_text() == other.to_text();
}

}  // namespace lathe
