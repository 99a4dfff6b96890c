// SPDX-License-Identifier: Apache-2.0
//
// Log lines in trtexec's layout: "[MM/DD/YYYY-HH:MM:SS] [I] text". Information and verbose lines go to
// stdout, warnings and errors to stderr, flushed one by one, because scripts read both and merge them with
// 2>&1.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/observer.h"

namespace lathe {

class Log {
 public:
  // Streams are arguments so that tests can read what was written. A status line (progress bar) is shown only
  // when `status` is a terminal; null: never.
  Log(std::FILE* out, std::FILE* err, std::FILE* status = nullptr);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void set_verbose(bool verbose) { verbose_ = verbose; }
  bool verbose() const { return verbose_; }

  void info(std::string_view text) { line(Severity::Info, text); }
  void warning(std::string_view text) { line(Severity::Warning, text); }
  void error(std::string_view text) { line(Severity::Error, text); }
  // Only the first line of `text` gets the prefix.
  void line(Severity severity, std::string_view text);
  // Lines that the library prints in the original: "[TRT] " follows the severity.
  void library(Severity severity, std::string_view text);
  // Without prefix, to stdout: banner, help, layer dumps.
  void plain(std::string_view text);
  // The same to stderr.
  void plain_error(std::string_view text);

  // Replaces the status line at the bottom of the terminal, cut to its width; empty removes it.
  void set_status(std::string_view text);

 private:
  void write(Severity severity, std::string_view tag, std::string_view text);
  void write(std::FILE* file, std::string_view text);

  std::FILE* out_;
  std::FILE* err_;
  std::FILE* status_;
  bool verbose_ = false;
  std::string status_text_;
};

// C++'s default stream format: six significant digits, no trailing zeros. All numbers of the reports use it.
std::string format_number(double value);
// The same as a JSON token: NaN becomes null and infinity 1e999, which strict readers accept and read as
// infinity.
std::string format_json_number(double value);

}  // namespace lathe
