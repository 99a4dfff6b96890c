// SPDX-License-Identifier: Apache-2.0
#include "terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/printable.h"
#include "base/short_text.h"

namespace lathe::cli {
namespace {

constexpr std::chrono::milliseconds kDrawInterval{200};
constexpr size_t kNarrow = 40;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

size_t columns_of(int file) {
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

size_t terminal_width() {
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr) {
    const unsigned long width = std::strtoul(columns, nullptr, 10);
    if (width >= kNarrow && width < 10000) return width;
  }
  return isatty(STDOUT_FILENO) != 0 ? columns_of(STDOUT_FILENO) : 0;
}

ProgressLine::ProgressLine() : is_terminal_(isatty(STDERR_FILENO) != 0) {
  if (is_terminal_) thread_ = std::thread([this] { keep_drawing(); });
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
  fmt::print(stderr, "\r\x1b[K");
}

void ProgressLine::say(const std::string& text) {
  const std::lock_guard lock(mutex_);
  text_ = printable(text);
  start_s_ = now_s();
  if (is_terminal_) {
    draw();
  } else {
    fmt::print(stderr, "{}\n", text_);
  }
}

// With the lock.
void ProgressLine::draw() {
  if (text_.empty()) return;
  const std::string time = fmt::format(" ... {:.0f} s", now_s() - start_s_);
  const size_t columns = columns_of(STDERR_FILENO);
  const size_t room = columns > time.size() + 1 ? columns - time.size() - 1 : 0;
  fmt::print(stderr, "\r{}{}\x1b[K", columns == 0 ? text_ : shorten(text_, room), time);
  std::fflush(stderr);
}

void ProgressLine::keep_drawing() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kDrawInterval, [this] { return done_; })) draw();
}

}  // namespace lathe::cli
