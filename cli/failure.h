// SPDX-License-Identifier: Apache-2.0
//
// How a command ends early: error lines that say what happened, from the cause to the phase that it stopped.
// Scripts match the fixed phrases of trtexec among them.
#pragma once

#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lathe::cli {

// What to print of an exception: words also for those of the standard library.
inline std::string text_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return "cannot use '" + file->path1().string() + "': " + file->code().message();
  return error.what();
}

struct FailureLine {
  std::string text;
  bool from_library = false;  // printed with "[TRT] "
};

class Failure : public std::exception {
 public:
  explicit Failure(std::vector<FailureLine> lines) : lines_(std::move(lines)) {}
  const std::vector<FailureLine>& lines() const { return lines_; }
  const char* what() const noexcept override { return lines_.empty() ? "" : lines_.front().text.c_str(); }

 private:
  std::vector<FailureLine> lines_;
};

// The library's error and the phrases that follow it.
[[noreturn]] inline void fail(const std::exception& cause, const std::vector<std::string>& phrases) {
  std::vector<FailureLine> lines{{text_of(cause), true}};
  for (const auto& phrase : phrases) lines.push_back({phrase});
  throw Failure(std::move(lines));
}
[[noreturn]] inline void fail(const std::vector<std::string>& phrases) {
  std::vector<FailureLine> lines;
  for (const auto& phrase : phrases) lines.push_back({phrase});
  throw Failure(std::move(lines));
}

}  // namespace lathe::cli
