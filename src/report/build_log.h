// SPDX-License-Identifier: Apache-2.0
//
// Renders what a build says (base/observer.h) as the lines that TensorRT's verbose log has for the same
// facts, and its progress as a bar with an estimate on a terminal. Tools that read TensorRT's logs read
// these.
#pragma once

#include "base/observer.h"
#include "report/log.h"

namespace lathe {

class BuildLog final : public Observer {
 public:
  explicit BuildLog(Log& log) : log_(log) {}
  void on(const Event& event) override;

 private:
  Log& log_;
};

// "[##########----------]  50%  tuning  41/82  ~12 s left"
std::string progress_bar(const Progress& progress);

}  // namespace lathe
