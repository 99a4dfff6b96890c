// SPDX-License-Identifier: Apache-2.0
#include "report/log.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <ctime>

#include "base/printable.h"

namespace lathe {
namespace {

char severity_letter(Severity severity) {
  switch (severity) {
    case Severity::InternalError:
      return 'F';
    case Severity::Error:
      return 'E';
    case Severity::Warning:
      return 'W';
    case Severity::Info:
      return 'I';
    case Severity::Verbose:
      return 'V';
  }
  return 'I';
}

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%m/%d/%Y-%H:%M:%S", &local);
  return text;
}

size_t columns_of(std::FILE* terminal) {
  winsize size{};
  const bool known = ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

constexpr std::string_view kClearLine = "\r\033[K";

}  // namespace

Log::Log(std::FILE* out, std::FILE* err, std::FILE* status) : out_(out), err_(err), status_(status) {
  if (status_ != nullptr && isatty(fileno(status_)) == 0) status_ = nullptr;
}

Log::~Log() {
  set_status("");
}

void Log::line(Severity severity, std::string_view text) {
  write(severity, "", text);
}

void Log::library(Severity severity, std::string_view text) {
  write(severity, "[TRT] ", text);
}

void Log::plain(std::string_view text) {
  write(out_, std::string(text) + "\n");
}

void Log::plain_error(std::string_view text) {
  write(err_, std::string(text) + "\n");
}

void Log::write(Severity severity, std::string_view tag, std::string_view text) {
  if (severity == Severity::Verbose && !verbose_) return;
  const bool to_stdout = severity == Severity::Info || severity == Severity::Verbose;
  write(to_stdout ? out_ : err_,
        fmt::format("[{}] [{}] {}{}\n", timestamp(), severity_letter(severity), tag, text));
}

void Log::write(std::FILE* file, std::string_view text) {
  if (status_ != nullptr && !status_text_.empty())
    std::fwrite(kClearLine.data(), 1, kClearLine.size(), status_);
  if (status_ != nullptr) std::fflush(status_);
  const std::string shown = printable(text);
  std::fwrite(shown.data(), 1, shown.size(), file);
  std::fflush(file);
  if (status_ != nullptr && !status_text_.empty()) {
    const std::string status = printable(status_text_);
    std::fwrite(status.data(), 1, status.size(), status_);
    std::fflush(status_);
  }
}

void Log::set_status(std::string_view text) {
  if (status_ == nullptr) return;
  text = text.substr(0, columns_of(status_) - 1);  // in the last column a terminal may begin a new line
  if (text == status_text_) return;
  std::fwrite(kClearLine.data(), 1, kClearLine.size(), status_);
  status_text_ = text;
  const std::string shown = printable(text);
  std::fwrite(shown.data(), 1, shown.size(), status_);
  std::fflush(status_);
}

std::string format_number(double value) {
  return fmt::format("{:g}", value);
}

std::string format_json_number(double value) {
  if (std::isnan(value)) return "null";
  if (std::isinf(value)) return value > 0 ? "1e999" : "-1e999";
  return format_number(value);
}

}  // namespace lathe
