// SPDX-License-Identifier: Apache-2.0
//
// How a command ends early: error lines that say what happened, from the cause to the phase that it stopped.
// Scripts match the fixed phrases of trtexec among them.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lathe::cli {

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
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&cause) != nullptr;
  std::vector<FailureLine> lines{{no_memory ? "out of memory" : cause.what(), true}};
  for (const auto& phrase : phrases) lines.push_back({phrase});
  throw Failure(std::move(lines));
}
[[noreturn]] inline void fail(const std::vector<std::string>& phrases) {
  std::vector<FailureLine> lines;
  for (const auto& phrase : phrases) lines.push_back({phrase});
  throw Failure(std::move(lines));
}

}  // namespace lathe::cli
