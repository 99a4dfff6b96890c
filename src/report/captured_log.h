// SPDX-License-Identifier: Apache-2.0
//
// For tests: a log whose lines can be read back.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "report/log.h"

namespace lathe {

// Text that a log wrote to both streams, without time stamps.
class CapturedLog {
 public:
  CapturedLog() : out_(std::tmpfile()), err_(std::tmpfile()), log_(out_, err_) {}
  ~CapturedLog() {
    std::fclose(out_);
    std::fclose(err_);
  }
  Log& log() { return log_; }
  std::vector<std::string> out() { return lines(out_); }
  std::vector<std::string> err() { return lines(err_); }

 private:
  static std::vector<std::string> lines(std::FILE* file) {
    std::rewind(file);
    std::vector<std::string> result;
    char line[4096];
    while (std::fgets(line, sizeof(line), file) != nullptr) {
      std::string text(line);
      text.pop_back();
      if (text.starts_with("[")) text.erase(0, std::string("[01/02/2026-03:04:05] ").size());
      result.push_back(text);
    }
    return result;
  }
  std::FILE* out_;
  std::FILE* err_;
  Log log_;
};

}  // namespace lathe
