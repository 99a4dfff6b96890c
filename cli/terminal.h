// SPDX-License-Identifier: Apache-2.0
//
// The terminal that somebody may look at: how wide it is, and a line that says what goes on.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

namespace lathe::cli {

// Columns of the terminal that standard output goes to: $COLUMNS, or what the terminal says. 0: no terminal,
// no limit.
size_t terminal_width();

// Says on standard error what is being done and for how long, in one line that it writes over and that is
// gone at the end. Where standard error is no terminal, each new text is a line of its own.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void say(const std::string& text);

 private:
  void draw();
  void keep_drawing();

  const bool is_terminal_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string text_;
  double start_s_ = 0;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace lathe::cli
